#include "commands.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <utility>

#include <unistd.h>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "launch.h"
#include "mpi/environment.h"
#include "mpi/survivors.h"
#include "record/provenance.h"
#include "relaunch.h"
#include "run_report.h"
#include "train/run/trainer.h"
#include "train/serve/serve.h"
#include "train/state/checkpoint_spec.h"

namespace bitrift::cli {
namespace {

void check_writable(const std::filesystem::path& path, const char* option) {
  if (path.empty()) return;
  if (std::filesystem::is_directory(path)) {
    fail(ErrorCode::bad_input, "{} {} is a folder; name a file", option, path.string());
  }
  const PendingFile probe(path);
}

// What a run needs, as far as it is known before LibTorch and MPI are set to work.
struct Plan {
  record::TrainingSpec spec;
  record::Parallel parallel = {};
  std::shared_ptr<const nn::Dataset> data = {};
  std::optional<ckpt::Reader> checkpoint = {};  // resume
  record::RecoverySpec recovery = {};
  std::vector<record::ProcessFault> kills = {};
  double opening_seconds = 0;  // of it
};

void check_outputs(const Arguments& arguments) {
  check_writable(arguments.output, "-o");
  check_writable(arguments.trace, "--trace");
}

// Runs work on this rank of the world. Errors on which all ranks agree are printed once and leave in order; a
// rank that fails alone ends all of them.
int in_world(const std::function<int(mpi::Environment&)>& work) {
  mpi::Environment environment;
  try {
    const int code = work(environment);
    environment.finalize();
    return code;
  } catch (const mpi::AgreedError& error) {
    if (environment.world().rank() == 0) complain(error.what());
    environment.finalize();
    return error.exit_code();
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    const int code = known != nullptr ? known->exit_code() : 3;
    const int rank = environment.world().rank();
    complain(environment.world().size() > 1 ? fmt::format("rank {}: {}", rank, error.what()) : error.what());
    leave_exit_code(code);
    environment.abort(code);
  }
}

// What mpirun must be told so that the run survives a failure.
std::vector<std::string> launcher_options(const Plan& plan) {
  if (!plan.recovery.in_place()) return {};
  const bool stops = std::any_of(plan.kills.begin(), plan.kills.end(),
                                 [](const auto& kill) { return kill.how == record::Ending::stop; });
  return mpi::survival_options(stops);
}

std::vector<std::string> own_command(const Arguments& arguments) {
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), arguments.words.begin(), arguments.words.end());
  return command;
}

// Who works, who waits and who joins.
train::Team surviving_team(const mpi::Environment& environment, int ranks) {
  if (const auto joined = mpi::spawned_into()) return train::Team::newcomer(*joined);
  train::Team team(environment.world(), ranks);
  if (environment.world().rank() == 0) say_begun();
  return team;
}

train::Team team_of(const mpi::Environment& environment, const Plan& plan) {
  if (!plan.recovery.in_place()) return train::Team(environment.world());
  if (!mpi::survives_failures()) {
    const std::string text = fmt::format(
        "--on-failure {}: this MPI cannot continue without a rank; start it with mpirun --with-ft ulfm, or "
        "choose "
        "relaunch",
        name_of(plan.recovery.kind));
    throw mpi::AgreedError(ErrorCode::bad_input, text);
  }
  return surviving_team(environment, plan.parallel.ranks);
}

// Makes a plan, before MPI starts unless a launcher did that already, and runs work with it on this rank.
// Without a launcher several ranks are left to mpirun.
int in_planned_world(const Arguments& arguments, const std::function<Plan()>& make_plan,
                     const std::function<int(mpi::Environment&, Plan&)>& work) {
  std::optional<Plan> plan;
  if (!mpi::started_by_launcher()) {
    plan = make_plan();
    check_outputs(arguments);
    if (plan->parallel.ranks > 1) {
      const int ranks = plan->parallel.ranks + plan->recovery.spares;
      const std::vector<std::string> options = launcher_options(*plan);
      const bool relaunches = plan->recovery.kind == record::RecoveryKind::relaunch;
      plan.reset();
      if (relaunches) return run_with_relaunches(ranks, arguments.words, arguments.output);
      const bool watched = !options.empty() && options == mpi::survival_options(true);
      const JobEnd end = watched ? run_until_begun(ranks, options, arguments.words)
                                 : run_mpirun(ranks, options, arguments.words);
      if (end.lost) complain("a rank was lost, and with it the run; see --on-failure");
      return end.lost && !arguments.recovery.kills.empty() ? 1 : end.code;
    }
  }
  return in_world([&](mpi::Environment& environment) {
    mpi::agreed(environment.world(), [&] {
      if (plan) return;
      plan = make_plan();
      if (environment.world().rank() == 0) check_outputs(arguments);
    });
    train::prepare_libtorch(plan->spec.threads);
    return work(environment, *plan);
  });
}

double seconds_of(const std::function<void()>& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

record::Json provenance_of(const Arguments& arguments, const record::Parallel& parallel,
                           const mpi::Environment& environment) {
  std::vector<std::string> command = {"bitrift-train"};
  command.insert(command.end(), arguments.words.begin(), arguments.words.end());
  record::Json provenance = record::provenance(command);
  provenance["environment"] = train::libtorch_environment(parallel.device);
  provenance["environment"]["mpi"] = environment.library();
  return provenance;
}

train::RunOptions run_options(const Arguments& arguments, const Plan& plan, bool tracing) {
  train::RunOptions options;
  options.steps = arguments.steps;
  options.check_replicas = arguments.check_replicas;
  options.tracing = tracing;
  options.on_evaluation = [](const record::Evaluation& evaluation) {
    spdlog::info("epoch {}, step {}: test loss {:.6f}, test accuracy {:.4f}", evaluation.epoch,
                 evaluation.step, evaluation.test_loss, evaluation.test_accuracy);
  };
  options.process_faults = plan.kills;
  options.death_note = death_note_file();
  options.command = own_command(arguments);
  return options;
}

// Trains from where the trainer stands; writes trace, checkpoint and report.
int run_and_report(const Arguments& arguments, const Plan& plan, std::int64_t epochs,
                   mpi::Environment& environment, train::Trainer& trainer, Durations durations = {},
                   std::optional<record::Relaunch> relaunched = {}) {
  const bool first = environment.world().rank() == 0;
  train::RunOptions options = run_options(arguments, plan, !arguments.trace.empty());
  options.epochs = epochs;
  options.relaunched = std::move(relaunched);
  options.ledger_folder = ledger_folder();
  if (arguments.replica_files.empty() && !arguments.precision && !arguments.batch_size && !arguments.fresh)
    options.start_file = arguments.input;
  std::unique_ptr<train::Trace> trace;
  if (options.tracing) {
    mpi::agreed(environment.world(), [&] {
      if (first) trace = std::make_unique<train::Trace>(arguments.trace);
    });
  }
  options.trace = trace.get();
  const record::Json provenance = provenance_of(arguments, plan.parallel, environment);
  options.checkpoint_file = arguments.output;
  const auto mode = parse_named<train::SaveMode>(arguments.recovery.checkpoint_mode);
  const auto writer = parse_named<train::SaveWriter>(arguments.recovery.checkpoint_writer);
  options.checkpoint = [&, mode, writer] { trainer.save(arguments.output, provenance, mode, writer); };
  options.checkpoint_behind = mode == train::SaveMode::async;
  if (!arguments.output.empty()) {
    options.save = [&] {
      // The trace is complete before the checkpoint is.
      mpi::agreed(trainer.group(), [&] {
        if (trace) trace->finish();
      });
      durations.save =
          seconds_of([&] { trainer.save(arguments.output, provenance, train::SaveMode::sync, writer); });
    };
  }
  const record::RunResult result = trainer.run(options);
  if (options.tracing && (arguments.output.empty() || result.status != record::RunStatus::done)) {
    mpi::agreed(trainer.group(), [&] {
      if (trace) trace->finish();
    });
  }
  const bool done = result.status == record::RunStatus::done;
  const int code = done ? 0 : 1;
  if (trainer.leads()) {
    warn_of_alarms(result);
    report(arguments, plan.parallel, result, durations);
    if (!done) complain(fmt::format("training stopped: {}; nothing was saved", result.detail));
  }
  if (!plan.recovery.in_place()) return code;
  if (trainer.leads()) leave_exit_code(code);
  environment.leave(code, trainer.everyone());
}

// The job was launched again: the state comes from its last checkpoint.
record::Relaunch load_again(const Arguments& arguments, const Plan& plan, train::Trainer& trainer) {
  record::Relaunch relaunch = this_relaunch(plan.parallel.ranks, arguments.relaunched);
  relaunch.recoveries.back().times.state = seconds_of([&] { trainer.load({.path = arguments.relaunched}); });
  return relaunch;
}

// The loss after which the job was launched again from where the run began.
std::optional<record::Relaunch> lost_at_start(const Arguments& arguments, const Plan& plan) {
  if (!arguments.relaunched_from_start) return std::nullopt;
  return this_relaunch(plan.parallel.ranks, {});
}

train::LoadRequest load_request(const Arguments& arguments) {
  train::LoadRequest request{.path = arguments.input,
                             .convert = arguments.precision.has_value(),
                             .resize = arguments.batch_size.has_value()};
  for (const std::string& text : arguments.replica_files) {
    const std::size_t cut = text.find('=');
    int replica = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + std::min(cut, text.size()), replica);
    if (cut == std::string::npos || error != std::errc() || end != text.data() + cut ||
        cut + 1 == text.size()) {
      fail(ErrorCode::bad_input, "--replica-file {}: expected REPLICA=FILE, such as 1=altered.h5", text);
    }
    if (!request.replica_files.emplace(replica, text.substr(cut + 1)).second)
      fail(ErrorCode::bad_input, "--replica-file {}: replica {} already has a file", text, replica);
  }
  return request;
}

void choose_recovery(const Arguments& arguments, Plan& plan) {
  plan.recovery = chosen_recovery(arguments.recovery, plan.parallel);
  plan.kills = chosen_kills(arguments.recovery, plan.parallel);
  const bool armed = plan.recovery.in_place();
  if (armed && !arguments.trace.empty())
    fail(ErrorCode::bad_input, "--trace cannot be combined with --on-failure {}",
         name_of(plan.recovery.kind));
  if (plan.recovery.checkpoint_every > 0 && arguments.output.empty())
    fail(ErrorCode::bad_input, "--checkpoint-every needs -o, the file that is written");
  if (arguments.recovery.checkpoint_mode == name_of(train::SaveMode::sync)) return;
  if (arguments.recovery.checkpoint_writer == name_of(train::SaveWriter::shared))
    fail(ErrorCode::bad_input,
         "--checkpoint-mode async cannot be combined with --checkpoint-writer shared; choose gather or sync");
  if (plan.recovery.checkpoint_every == 0)
    fail(ErrorCode::bad_input,
         "--checkpoint-mode async needs --checkpoint-every; the last save is always sync");
  if (armed) {
    fail(
        ErrorCode::bad_input,
        "--checkpoint-mode async cannot be combined with --on-failure {}, which may need the last checkpoint "
        "before the disk has it; choose sync",
        name_of(plan.recovery.kind));
  }
}

// A loss scale belongs to the precision that it was chosen for.
void convert_precision(record::TrainingSpec& spec, record::Precision precision) {
  if (precision == spec.precision) return;
  spec.precision = precision;
  spec.loss_scale.reset();
}

}  // namespace

void complain(const std::string& text) {
  // LibTorch appends a stack trace in further lines.
  fmt::print(stderr, "bitrift-train: error: {}\n", text.substr(0, text.find('\n')));
}

int train(const Arguments& arguments) {
  const auto make_plan = [&] {
    Plan plan{.spec = record::read_training_spec(arguments.input)};
    plan.parallel = chosen_parallel(arguments.parallel, plan.spec.parallel);
    choose_recovery(arguments, plan);
    plan.data = train::load_runnable(plan.spec, plan.parallel);
    return plan;
  };
  return in_planned_world(arguments, make_plan, [&](mpi::Environment& environment, Plan& plan) {
    const bool again = !arguments.relaunched.empty();
    train::Trainer trainer(plan.spec, plan.parallel, team_of(environment, plan), plan.recovery, !again,
                           std::move(plan.data));
    const std::int64_t epochs = arguments.epochs.value_or(plan.spec.epochs);
    if (!again)
      return run_and_report(arguments, plan, epochs, environment, trainer, {},
                            lost_at_start(arguments, plan));
    record::Relaunch from = load_again(arguments, plan, trainer);
    const double load_seconds = from.recoveries.back().times.state;
    return run_and_report(arguments, plan, epochs, environment, trainer, {.load = load_seconds},
                          std::move(from));
  });
}

int resume(const Arguments& arguments) {
  train::LoadRequest request = load_request(arguments);
  const auto make_plan = [&] {
    Plan plan;
    plan.opening_seconds = seconds_of([&] { plan.checkpoint.emplace(arguments.input); });
    plan.spec = train::checkpoint_spec(*plan.checkpoint);
    if (arguments.precision)
      convert_precision(plan.spec, parse_named<record::Precision>(*arguments.precision));
    choose_guards(arguments.guards, plan.spec);
    if (arguments.batch_size && *arguments.batch_size != plan.spec.batch_size) {
      plan.spec.resized.push_back({plan.spec.batch_size,
                                   train::integer_in(*plan.checkpoint, "progress/epoch", 0),
                                   train::integer_in(*plan.checkpoint, "progress/cursor", 0)});
      plan.spec.batch_size = *arguments.batch_size;
    }
    plan.parallel = chosen_parallel(arguments.parallel, {});
    choose_recovery(arguments, plan);
    plan.data = train::load_runnable(plan.spec, plan.parallel);
    return plan;
  };
  return in_planned_world(arguments, make_plan, [&](mpi::Environment& environment, Plan& plan) {
    train::Trainer trainer(plan.spec, plan.parallel, team_of(environment, plan), plan.recovery, false,
                           std::move(plan.data));
    if (!arguments.relaunched.empty()) {
      record::Relaunch from = load_again(arguments, plan, trainer);
      const double load_seconds = from.recoveries.back().times.state;
      return run_and_report(arguments, plan, 0, environment, trainer, {.load = load_seconds},
                            std::move(from));
    }
    request.opened = &*plan.checkpoint;
    const double load_seconds = plan.opening_seconds + seconds_of([&] { trainer.load(request); });
    plan.checkpoint.reset();
    const std::int64_t left = std::max<std::int64_t>(0, plan.spec.epochs - trainer.epoch());
    if (left == 0 && !arguments.epochs && !arguments.steps && trainer.working() &&
        trainer.group().rank() == 0) {
      spdlog::warn(
          "{}: the {} epochs of its spec are done; only evaluating (use --epochs or --steps to continue)",
          arguments.input.string(), plan.spec.epochs);
    }
    return run_and_report(arguments, plan, arguments.epochs.value_or(left), environment, trainer,
                          {.load = load_seconds}, lost_at_start(arguments, plan));
  });
}

int serve(const Arguments& arguments) {
  const record::Parallel parallel = chosen_parallel(arguments.parallel, {});
  record::RecoverySpec recovery;
  if (arguments.serve_recovery)
    recovery = record::recovery_spec_from_json(record::Json::parse(*arguments.serve_recovery));
  // A job that is launched again ends with the first rank that fails.
  const bool survives = arguments.serve_recovery && recovery.kind != record::RecoveryKind::relaunch;
  const auto with_guards = [&](record::TrainingSpec spec) {
    choose_guards(arguments.guards, spec);
    return spec;
  };
  if (parallel.ranks > 1 && !mpi::started_by_launcher()) {
    (void)train::load_runnable(with_guards(train::checkpoint_spec(ckpt::Reader(arguments.input))), parallel);
    const auto options = survives ? mpi::survival_options(arguments.detector) : std::vector<std::string>();
    become_mpirun(parallel.ranks + recovery.spares + arguments.reserve, options, arguments.words);
  }
  return in_world([&](mpi::Environment& environment) {
    const train::WorkerEnd end = train::serve(
        {.connect = arguments.connect,
         .base = arguments.input,
         .parallel = parallel,
         .choose_guards = with_guards,
         .mpi_library = environment.library(),
         .team = survives ? surviving_team(environment, parallel.ranks) : train::Team(environment.world()),
         .recovery = recovery,
         .death_note = death_note_file(),
         .command = own_command(arguments),
         .ignore_file = arguments.drill == "ignore-file"},
        environment.world());
    // MPI_Finalize would wait for ranks that are gone.
    if (survives) environment.leave(end == train::WorkerEnd::at_once ? 3 : 0, mpi::Communicator());
    if (end == train::WorkerEnd::at_once) ::_exit(3);  // MPI_Finalize would wait for the other ranks
    return 0;
  });
}

}  // namespace bitrift::cli
