#include "campaign/worker/crew.h"

#include <utility>

#include "campaign/plan/ends.h"
#include "core/error.h"

namespace bitrift::campaign {
namespace {

// A trial reads only the altered tensors, the rest is in memory; now and then a trial reads the whole file,
// and always when more than values was altered.
constexpr std::size_t full_read_every = 32;

}  // namespace

std::unique_ptr<Crew> start_crew(const PoolOptions& options, const Bases& bases, std::size_t arm, int slot) {
  auto crew = std::make_unique<Crew>();
  crew->arm = arm;
  crew->slot = slot;
  const WorkerPlace place = options.place_of(slot);
  crew->log = place.log;
  const design::Arm& of = options.arms[arm];
  const ckpt::Reader& base = bases.at(of.file);
  crew->copy = std::make_unique<PrivateCopy>(base, place.copy, options.network);
  // A folder in this machine's memory means nothing to ranks on other machines.
  if (!options.network) crew->scratch = std::make_unique<Scratch>(place.scratch);
  Launch launch = options.launch;
  launch.base = base.path();
  Listener listener =
      options.network ? Listener(place.copy.parent_path() / "meeting-point", options.listen_at) : Listener();
  const auto scratch = crew->scratch ? crew->scratch->path() : std::filesystem::path();
  const Command command = worker_command(launch, of, listener.name(), crew->log, scratch);
  const int connections =
      launch.runner.kind == record::RunnerKind::exec ? 1 : processes_of(of, launch.failing).all();
  crew->worker =
      std::make_unique<Worker>(std::move(listener), command, connections, options.start_deadline_s);
  return crew;
}

void could_not_start(const Crew& crew, const WorkerLost& loss, const PoolOptions& options) {
  const bool slow = loss.failure.reason == record::FailureReason::hang;
  const std::string why =
      !loss.failure.detail.empty() ? loss.failure.detail
      : slow ? fmt::format("it was not ready after {} s; if it needs longer, raise worker.start_deadline_s",
                           options.start_deadline_s)
             : name_of(loss.failure.reason);
  const std::string tail = log_tail(crew.log);
  // Exit code 2 is a usage or input error, 127 a program that does not exist. A report by a user's own
  // program counts, even if its process has not ended yet.
  const bool own_program = options.launch.runner.kind != record::RunnerKind::train &&
                           loss.failure.reason == record::FailureReason::exception;
  const bool users_fault =
      own_program || slow || (loss.status && (loss.status->code == 2 || loss.status->code == 127));
  fail(users_fault ? ErrorCode::bad_input : ErrorCode::internal,
       "arm '{}': workers cannot be started: {}; {} says: {}", options.arms[crew.arm].name, why,
       crew.log.string(), tail.empty() ? "nothing" : tail);
}

std::string slow_start_text(const Crew& crew, const PoolOptions& options) {
  const double seconds = std::chrono::duration<double>(Clock::now() - crew.begun).count();
  return fmt::format(
      "arm '{}': a worker has been starting for {:.0f} s: {}; it may take {} s (worker.start_deadline_s), "
      "and writes to {}",
      options.arms[crew.arm].name, seconds, crew.worker->waits_for(), options.start_deadline_s,
      crew.log.string());
}

void take_result(Crew& crew, const record::RunResult& result) {
  record::RunResult& kept = crew.current.result.emplace(result);
  kept.detail = without_place(result.detail, crew.copy->path());
  kept.changed_tensors = crew.copy->primaries(result.changed_tensors);
  crew.current.altered = crew.copy->primaries(crew.current.altered);
}

record::RunRequest run_request(Crew& crew, const PoolOptions& options) {
  const record::TrialSpec& spec = crew.current.spec;
  record::RunRequest run;
  run.id = spec.id.text();
  run.checkpoint = crew.copy->path().string();
  run.epochs = spec.epochs;
  run.order_seed = spec.order_seed;
  run.drill = spec.drill;
  run.replicas = spec.replicas;
  if (!spec.faults.of_bits()) run.faults = spec.faults;
  run.recovery = spec.recovery;
  if (!crew.checking && crew.job && crew.job->relaunched) {
    run.relaunched = crew.job->relaunched->from;
    run.faults = crew.job->relaunched->faults;
  }
  if (spec.kind == record::TrialKind::trial) {
    const bool audit = crew.trials++ % full_read_every == 0;
    if (!audit && spec.plane == record::Plane::value) run.altered = crew.current.altered;
    // A process that joined after the golden run does not know that run, and whether a worker has such
    // processes must not show in a row: where ranks fail, trials go to their end.
    run.early_end = options.early_end && options.launch.failing == 0;
    if (options.propagation && options.propagation->wants_draw(spec.id.draw))
      run.propagation = options.propagation;
  }
  run.golden = is_golden_run({spec.kind, spec.id});
  if (run.golden) run.propagation = options.propagation;
  // The tensors that a trial loads are compared with those that the golden run loaded.
  const bool values = spec.kind == record::TrialKind::trial && spec.plane == record::Plane::value;
  run.compare_loaded = options.compare_loaded && (run.golden || values);
  return run;
}

}  // namespace bitrift::campaign
