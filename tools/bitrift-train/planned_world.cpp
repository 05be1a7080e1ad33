#include "planned_world.h"

#include <algorithm>
#include <filesystem>

#include "complaint.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "launch/launch.h"
#include "launch/preemption.h"
#include "mpi/survivors.h"
#include "relaunch.h"
#include "train/run/trainer.h"

namespace bitrift::cli {
namespace {

void check_writable(const std::filesystem::path& path, const char* option) {
  if (path.empty()) return;
  if (std::filesystem::is_directory(path)) {
    fail(ErrorCode::bad_input, "{} {} is a folder; name a file", option, path.string());
  }
  const PendingFile probe(path);
}

// The lock of the folder of checkpoints, if there is one.
[[nodiscard]] FileDescriptor check_outputs(const Arguments& arguments, const Plan& plan) {
  // A process that joins later, and a job that is launched again, find the run's own files.
  const bool again = !arguments.relaunched.empty() || arguments.relaunched_from_start;
  plan.output.check_names();
  const bool begins = !again && !mpi::is_spawned();
  if (begins && !plan.continues_folder) plan.output.check_contents(plan.start_step);
  plan.output.prepare(plan.checkpoints.writer == record::SaveWriter::shared && plan.parallel.ranks > 1);
  check_writable(arguments.trace, "--trace");
  return mpi::is_spawned() ? FileDescriptor() : plan.output.hold(again);
}

// What mpirun must be told so that the run survives a failure. soon: the driver's watch notices stopped ranks
// after a time that the user chose.
std::vector<std::string> launcher_options(const Plan& plan, bool soon) {
  if (!plan.recovery.in_place()) return {};
  const bool stops = std::any_of(plan.kills.begin(), plan.kills.end(),
                                 [](const auto& kill) { return kill.how == record::FailureMode::stop; });
  return mpi::survival_options(stops && !soon);
}

}  // namespace

int in_world(const std::function<int(mpi::Environment&)>& work) {
  mpi::Environment environment;
  show_pulse_to_driver();
  try {
    const int code = work(environment);
    environment.finalize();
    return code;
  } catch (const mpi::AgreedError& error) {
    if (environment.world().rank() == 0) complain(error.what());
    environment.finalize();
    return error.exit_code();
  } catch (const mpi::RankFailed& failed) {
    // The training has not begun: afterwards, its loop recovers. The driver starts the ranks again.
    if (launched_by_us()) {
      spdlog::debug("{}", failed.what());
    } else {
      complain(fmt::format(
          "rank {}: another rank was lost, and this one cannot continue without it; start the job again",
          environment.world().rank()));
    }
    environment.abort(1);
  } catch (const std::exception& error) {
    const auto [text, code] = complaint_about(error);
    const int rank = environment.world().rank();
    complain(environment.world().size() > 1 ? fmt::format("rank {}: {}", rank, text) : text);
    leave_exit_code(code);
    environment.abort(code);
  }
}

std::vector<std::string> own_command(const Arguments& arguments) {
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), arguments.words.begin(), arguments.words.end());
  return command;
}

train::Team surviving_team(const mpi::Environment& environment, int ranks) {
  if (const auto joined = mpi::spawned_into()) return train::Team::newcomer(*joined);
  return {environment.world(), ranks};
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
  train::Team team = surviving_team(environment, plan.parallel.ranks);
  const int started = environment.world().size();
  if (plan.recovery.spares > 0 && !mpi::is_spawned() &&
      started < plan.parallel.ranks + plan.recovery.spares) {
    throw mpi::AgreedError(
        ErrorCode::bad_input,
        fmt::format("--on-failure {}: {} ranks work and {} wait to take their places, but {} were started; "
                    "start mpirun with -np {}",
                    name_of(plan.recovery.kind), plan.parallel.ranks, plan.recovery.spares, started,
                    plan.parallel.ranks + plan.recovery.spares));
  }
  return team;
}

int in_planned_world(const Arguments& arguments, const Planning& planning,
                     const std::function<int(mpi::Environment&, Plan&)>& work) {
  std::optional<Plan> plan;
  FileDescriptor lock;
  if (!mpi::started_by_launcher()) {
    if (planning.prepare) planning.prepare(nullptr);
    plan = planning.make_plan();
    lock = check_outputs(arguments, *plan);
    // One rank alone needs no launcher, unless somebody must survive it.
    const bool relaunches = plan->recovery.kind == record::RecoveryKind::relaunch;
    if (plan->parallel.ranks > 1 || relaunches) {
      lock.close();  // rank 0 takes it
      const int ranks = plan->parallel.ranks + plan->recovery.spares;
      const std::vector<std::string> options = launcher_options(*plan, plan->hang_limit.seconds.has_value());
      const Job job{.ranks = ranks,
                    .options = options,
                    .arguments = arguments.words,
                    .hang_limit = plan->hang_limit,
                    .may_leave = !arguments.output.empty(),
                    .tells_steps = relaunches};
      plan.reset();
      if (relaunches) return run_with_relaunches(job, arguments.output);
      const bool survives = !options.empty();
      const JobEnd end = survives ? run_until_begun(job) : run_mpirun(job);
      if (end.launcher_signal != 0) {
        complain(
            fmt::format("mpirun was ended by signal {}, and with it the run; --on-failure relaunch would "
                        "launch it again",
                        end.launcher_signal));
        return 1;
      }
      if (!end.no_start.empty()) {
        complain(end.no_start + "; see what it says");
        return 1;
      }
      if (end.lost && survives && !end.began) {
        complain(fmt::format("a rank was lost before the training began, {} times in a row", start_tries));
        return 1;
      }
      if (end.lost && survives) {
        complain(
            "mpirun ended the whole job, as it does when it loses a machine; "
            "--on-failure relaunch would launch it again");
      } else if (end.lost) {
        complain("a rank was lost, and with it the run; see --on-failure");
      }
      return end.lost && !arguments.recovery.kills.empty() ? 1 : end.code;
    }
  }
  // The driver asks no rank before all have begun, and a rank that joins must not end by itself.
  if (launched_by_us() || mpi::is_spawned()) {
    leave_when_preempted(false);
  } else {
    end_when_preempted();
  }
  return in_world([&](mpi::Environment& environment) {
    if (!plan && planning.prepare) planning.prepare(&environment.world());
    mpi::agreed(environment.world(), [&] {
      if (plan) return;
      plan = planning.make_plan();
      if (environment.world().rank() == 0) lock = check_outputs(arguments, *plan);
    });
    train::prepare_libtorch(plan->spec.threads);
    return work(environment, *plan);
  });
}

}  // namespace bitrift::cli
