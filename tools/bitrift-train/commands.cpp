#include "commands.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <optional>
#include <utility>

#include <sysexits.h>
#include <unistd.h>

#include "complaint.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "dataset/dataset.h"
#include "launch/launch.h"
#include "launch/preemption.h"
#include "mpi/environment.h"
#include "mpi/survivors.h"
#include "planned_world.h"
#include "record/fault/death_note.h"
#include "record/provenance.h"
#include "relaunch.h"
#include "run_report.h"
#include "strike_options.h"
#include "train/describe/describe.h"
#include "train/run/trainer.h"
#include "train/serve/serve.h"
#include "train/state/checkpoint_clock.h"
#include "train/state/checkpoint_folder.h"
#include "train/state/checkpoint_spec.h"

namespace bitrift::cli {
namespace {

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
                 evaluation.step, evaluation.test_loss.value(), evaluation.test_accuracy.value());
  };
  options.process_faults = plan.kills;
  options.link_faults = plan.links.flips;
  options.failed_links = plan.links.failures;
  options.compute_faults = plan.strikes;
  options.death_note = death_note_file();
  options.command = own_command(arguments);
  return options;
}

void finish(std::future<void>& work) {
  if (work.valid()) work.get();
}

// The checkpoints on the way. removal: of those that a newer one replaces, while the training continues: it
// took a quarter of the time for which a save of 219 MB stopped the training. It is over before the next file
// is begun, which may need the room on the disk. Must outlive the run.
void write_checkpoints(const Plan& plan, train::Trainer& trainer, const record::Json& provenance,
                       std::future<void>& removal, train::RunOptions& options) {
  const bool behind = plan.checkpoints.mode == record::SaveMode::async;
  options.choose_interval = plan.checkpoints.automatic;
  options.ledgers_kept = static_cast<std::size_t>(plan.output.keep()) + (behind ? 1 : 0);
  if (behind)
    options.before_checkpoints = [&trainer, format = plan.format] { trainer.prepare_saves(format); };
  if (plan.checkpoints.writes()) options.clock = std::make_shared<train::CheckpointClock>(plan.checkpoints);
  options.checkpoint = [&trainer, &removal, provenance, behind, place = plan.output,
                        writer = plan.checkpoints.writer, clock = options.clock,
                        format = plan.format](const std::string&) {
    const std::int64_t step = trainer.step();
    std::filesystem::path file = place.file(step);
    record::Json beside = provenance;
    if (clock) beside["checkpoints"] = clock->so_far(record::monotonic_seconds());
    if (behind) {
      const auto saved = [clock, place, step] {
        if (clock) clock->durable(record::monotonic_seconds());
        place.completed(step);
      };
      trainer.save(file, beside, {record::SaveMode::async, writer, saved, format});
    } else {
      finish(removal);
      trainer.save(file, beside, {.writer = writer, .format = format});
      // Not before all ranks know of the new file: a rank that is lost before then may take the others back.
      if (trainer.leads()) removal = std::async([place, step] { place.completed(step); });
    }
    return file;
  };
}

int exit_code_of(const record::RunResult& result) {
  if (result.status != record::RunStatus::done) return 1;
  return result.left_undone ? EX_TEMPFAIL : 0;
}

void say_left(const Arguments& arguments, std::int64_t step, std::int64_t left,
              const std::filesystem::path& file) {
  spdlog::warn("asked to end early: saved step {} in {}; resume it with --{} {}", step, file.string(),
               arguments.steps ? "steps" : "epochs", left);
}

// On one rank. step: of the whole training.
void tell_result(const Arguments& arguments, const Plan& plan, const train::RunOptions& options,
                 std::int64_t step, const record::RunResult& result, Saved& saved) {
  const bool done = result.status == record::RunStatus::done;
  // A rank that joined after the save did not take part in it.
  if (done && !arguments.output.empty()) saved.file = plan.output.file(step);
  warn_of_alarms(result);
  if (options.clock) saved.on_the_way = options.clock->report();
  report(arguments, plan.parallel, result, saved);
  if (result.left_undone) say_left(arguments, step, *result.left_undone, saved.file);
  if (!done) {
    complain(fmt::format("training stopped: {}; {}", result.detail,
                         saved.on_the_way ? "the last checkpoint on the way is kept" : "nothing was saved"));
  }
  std::fflush(stdout);
}

// An exception that no rank expected, such as that memory is exhausted, is the end of this rank alone: the
// others or the driver recover from it as from any other death. What bitrift itself has found wrong ends the
// run.
record::RunResult run_or_die(const Plan& plan, const mpi::Environment& environment, train::Trainer& trainer,
                             const train::RunOptions& options) {
  try {
    return trainer.run(options);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const bool alone = environment.world().size() == 1 && !launched_by_us();
    if (plan.recovery.kind == record::RecoveryKind::none || alone) throw;
    spdlog::warn("rank {} ends: {}", environment.world().rank(), complaint_about(error).text);
    spdlog::default_logger()->flush();
    say_given_up();
    std::raise(SIGKILL);  // Open MPI notices no other end of a rank that is not in MPI_Finalize
    throw;
  }
}

// Trains from where the trainer stands; writes trace, checkpoint and report.
int run_and_report(const Arguments& arguments, const Plan& plan, std::int64_t epochs,
                   mpi::Environment& environment, train::Trainer& trainer, Saved saved = {},
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
  std::future<void> removal;
  write_checkpoints(plan, trainer, provenance, removal, options);
  if (!arguments.output.empty()) {
    options.save = [&] {
      finish(removal);
      // The trace is complete before the checkpoint is.
      mpi::agreed(trainer.group(), [&] {
        if (trace) trace->finish();
      });
      saved.file = plan.output.file(trainer.step());
      saved.seconds = seconds_of([&] {
        trainer.save(saved.file, provenance, {.writer = plan.checkpoints.writer, .format = plan.format});
      });
      if (trainer.leads()) plan.output.completed(trainer.step());
    };
  }
  // Once for the whole run: by the rank that leads, or by the next one where that dies before it has.
  bool told = false;
  const auto tell = [&](const record::RunResult& result) {
    finish(removal);
    tell_result(arguments, plan, options, trainer.step(), result, saved);
    leave_exit_code(exit_code_of(result));
    told = true;
  };
  if (plan.recovery.in_place()) {
    options.report = tell;
    options.reported = exit_code_left;
  }
  if (!arguments.output.empty()) {
    options.asked_to_leave = [] { return preempted() || asked_by_driver(); };
    leave_when_preempted(!mpi::started_by_launcher());
  }
  // A process that joins finds the training begun.
  if (!mpi::is_spawned() && mpi::all_agree(trainer.everyone(), true)) say_begun();
  const record::RunResult result = run_or_die(plan, environment, trainer, options);
  finish(removal);
  if (options.tracing && (arguments.output.empty() || result.status != record::RunStatus::done)) {
    mpi::agreed(trainer.group(), [&] {
      if (trace) trace->finish();
    });
  }
  if (trainer.leads() && !told && !(options.reported && options.reported())) tell(result);
  if (!plan.recovery.in_place()) return exit_code_of(result);
  environment.leave(exit_code_of(result), trainer.everyone());
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

// What the options say of ranks that fail and of checkpoints.
void choose_recovery(const Arguments& arguments, Plan& plan) {
  plan.recovery = chosen_recovery(arguments.recovery, plan.parallel);
  plan.kills = chosen_kills(arguments.recovery, plan.parallel);
  plan.hang_limit = chosen_hang_limit(arguments.recovery, plan.recovery.kind, plan.parallel,
                                      launched_by_us() || !mpi::started_by_launcher());
  plan.links = chosen_links(arguments.links, plan.parallel, plan.recovery.kind);
  plan.strikes = chosen_strikes(arguments.strikes, plan.parallel, plan.recovery.kind);
  if (arguments.check_replicas) refuse_unequal_replicas(plan.strikes, plan.parallel);
  if (plan.recovery.in_place() && !arguments.trace.empty())
    fail(ErrorCode::bad_input, "--trace cannot be combined with --on-failure {}",
         name_of(plan.recovery.kind));
  if (arguments.output.empty()) refuse_without_output(arguments.checkpoints);
  plan.checkpoints = chosen_checkpoints(arguments.checkpoints, plan.spec.checkpoint);
  plan.output = OutputPlace(arguments.output, plan.checkpoints);
  plan.format = chosen_format(arguments.format, arguments.output);
  check_format(plan.format, arguments.output, plan.spec, plan.checkpoints.writer, plan.recovery.kind);
  add_checkpoints(plan.recovery, plan.checkpoints);
}

// epochs: that a run may take.
void check_faults(const Arguments& arguments, const Plan& plan, std::int64_t epochs) {
  const std::int64_t an_epoch = plan.data->train_size() / plan.spec.batch_size;
  const std::int64_t steps = arguments.steps.value_or(epochs * an_epoch);
  check_links(plan.links, plan.spec, plan.parallel, *plan.data, steps);
  check_strikes(plan.strikes, plan.spec, plan.parallel, *plan.data, steps);
}

// The file that `resume` begins with: of a folder the newest valid one. All ranks take that of rank 0.
std::filesystem::path start_file(const Arguments& arguments, const mpi::Communicator* ranks) {
  const auto newest = [&](train::Look look, bool says) {
    if (!names_folder(arguments.input)) return arguments.input;
    // Before anything is said of what is skipped: it ends the run.
    if (names_folder(arguments.output)) train::check_names(arguments.output);
    train::Newest found = train::newest_valid(arguments.input, look);
    if (says) {
      for (const std::string& line : found.skipped) spdlog::warn("{}", line);
    }
    return found.checkpoint.path;
  };
  if (ranks == nullptr) {
    // Ranks that are still to be started look closely.
    const bool alone = chosen_parallel(arguments.parallel, {}).ranks == 1;
    return newest(alone ? train::Look::contents : train::Look::header, alone);
  }
  // A process that replaces a lost one gets its state from the others.
  const bool joins = mpi::is_spawned();
  std::string file;
  mpi::agreed(*ranks, [&] {
    if (ranks->rank() == 0)
      file = newest(joins ? train::Look::header : train::Look::contents, !joins).string();
  });
  ranks->broadcast(file, 0);
  return file;
}

// A loss scale belongs to the precision that it was chosen for.
void convert_precision(record::TrainingSpec& spec, record::Precision precision) {
  if (precision == spec.precision) return;
  spec.precision = precision;
  spec.loss_scale.reset();
}

}  // namespace

int train(const Arguments& arguments) {
  const auto make_plan = [&] {
    Plan plan{.spec = record::read_training_spec(arguments.input)};
    plan.parallel = chosen_parallel(arguments.parallel, plan.spec.parallel);
    choose_recovery(arguments, plan);
    plan.data = train::load_runnable(plan.spec, plan.parallel);
    check_faults(arguments, plan, arguments.epochs.value_or(plan.spec.epochs));
    return plan;
  };
  return in_planned_world(arguments, {.make_plan = make_plan},
                          [&](mpi::Environment& environment, Plan& plan) {
                            const bool again = !arguments.relaunched.empty();
                            train::Trainer trainer(plan.spec, plan.parallel, team_of(environment, plan),
                                                   plan.recovery, !again, std::move(plan.data));
                            const std::int64_t epochs = arguments.epochs.value_or(plan.spec.epochs);
                            if (!again)
                              return run_and_report(arguments, plan, epochs, environment, trainer, {},
                                                    lost_at_start(arguments, plan));
                            record::Relaunch from = load_again(arguments, plan, trainer);
                            const double load_seconds = from.recoveries.back().times.state;
                            return run_and_report(arguments, plan, epochs, environment, trainer,
                                                  {.load_seconds = load_seconds}, std::move(from));
                          });
}

int resume(const Arguments& given) {
  Arguments arguments = given;
  train::LoadRequest request = load_request(arguments);
  const auto prepare = [&](const mpi::Communicator* ranks) {
    arguments.input = request.path = start_file(given, ranks);
  };
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
    if (plan.parallel.shard_optimizer && !arguments.replica_files.empty())
      fail(ErrorCode::bad_input,
           "--replica-file cannot be combined with --shard-optimizer: each parameter comes from the one "
           "replica that updates it, so replicas cannot differ; leave one of them out");
    choose_recovery(arguments, plan);
    plan.start_step = train::integer_in(*plan.checkpoint, "progress/step", 0);
    std::error_code ignored;
    plan.continues_folder = plan.output.is_folder() && names_folder(given.input) &&
                            std::filesystem::equivalent(given.input, given.output, ignored);
    plan.data = train::load_runnable(plan.spec, plan.parallel);
    check_faults(arguments, plan,
                 arguments.epochs.value_or(std::max<std::int64_t>(
                     0, plan.spec.epochs - train::integer_in(*plan.checkpoint, "progress/epoch", 0))));
    return plan;
  };
  return in_planned_world(arguments, {prepare, make_plan}, [&](mpi::Environment& environment, Plan& plan) {
    train::Trainer trainer(plan.spec, plan.parallel, team_of(environment, plan), plan.recovery, false,
                           std::move(plan.data));
    if (!arguments.relaunched.empty()) {
      record::Relaunch from = load_again(arguments, plan, trainer);
      const double load_seconds = from.recoveries.back().times.state;
      return run_and_report(arguments, plan, 0, environment, trainer, {.load_seconds = load_seconds},
                            std::move(from));
    }
    if (trainer.leads() && names_folder(given.input))
      spdlog::info("resuming from {}", arguments.input.string());
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
                          {.load_seconds = load_seconds}, lost_at_start(arguments, plan));
  });
}

int serve(const Arguments& arguments) {
  const record::Parallel parallel = chosen_parallel(arguments.parallel, {});
  record::RecoverySpec recovery;
  if (arguments.serve_recovery) record::Json::parse(*arguments.serve_recovery).get_to(recovery);
  // A job that is launched again ends with the first rank that fails.
  const bool survives = arguments.serve_recovery && recovery.kind != record::RecoveryKind::relaunch;
  const auto with_guards = [&](record::TrainingSpec spec) {
    choose_guards(arguments.guards, spec);
    return spec;
  };
  if (parallel.ranks > 1 && !mpi::started_by_launcher()) {
    (void)train::load_runnable(with_guards(train::checkpoint_spec(ckpt::Reader(arguments.input))), parallel);
    const auto options = survives ? mpi::survival_options(arguments.detector) : std::vector<std::string>();
    become_mpirun({.ranks = parallel.ranks + recovery.spares + arguments.reserve,
                   .options = options,
                   .arguments = arguments.words});
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
