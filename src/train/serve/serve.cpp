#include "train/serve/serve.h"

#include <algorithm>
#include <csignal>
#include <optional>
#include <stdexcept>
#include <utility>

#include <unistd.h>

#include "ckpt/reader.h"
#include "core/log.h"
#include "record/fault/death_note.h"
#include "record/worker_message.h"
#include "train/run/propagation_runs.h"
#include "train/run/trainer.h"
#include "train/serve/sudden_end.h"
#include "train/state/checkpoint_names.h"
#include "train/state/checkpoint_spec.h"
#include "wire/line_channel.h"
#include "wire/meeting_point.h"

namespace bitrift::train {
namespace {

// Takes the faults that a run meets. Altered bits are in its file.
void meet(const record::FaultList&, RunOptions&) {}
void meet(const std::vector<record::ProcessFault>& faults, RunOptions& run) { run.process_faults = faults; }
void meet(const std::vector<record::LinkFault>& faults, RunOptions& run) { run.link_faults = faults; }
void meet(const std::vector<record::FailedLink>& links, RunOptions& run) { run.failed_links = links; }
void meet(const std::vector<record::ComputeFault>& faults, RunOptions& run) { run.compute_faults = faults; }

using record::Drill;

// Carries out a drill on the rank that it falls on.
void drill(std::optional<Drill> kind) {
  if (kind == Drill::abort) std::abort();
  if (kind == Drill::segfault) std::raise(SIGSEGV);
  if (kind == Drill::raise) throw std::runtime_error("drill: raise");
  while (kind == Drill::hang) ::pause();
}

class Worker {
 public:
  Worker(const WorkerOptions& options, const mpi::Communicator& communicator, LineChannel& channel)
      : options_(options), communicator_(communicator), channel_(channel) {}

  WorkerEnd run() {
    std::optional<ckpt::Reader> base;
    record::TrainingSpec spec;
    mpi::agreed(options_.team.is_newcomer() ? mpi::Communicator() : communicator_, [&] {
      base.emplace(options_.base);
      spec = options_.choose_guards(checkpoint_spec(*base));
    });
    prepare_libtorch(spec.threads);
    // Also known to a process that has loaded nothing.
    base_seed_ =
        static_cast<std::uint64_t>(integer_in(*base, "rng/seed", static_cast<std::int64_t>(spec.seed)));
    // If a file has several replicas, each rank reads its own part: too much to know here. In a team that
    // loses members, not all ranks have the base in memory.
    full_load_ =
        spec.guards.checksums || base->attribute(replicas_attribute).has_value() || options_.team.may_lose();
    Trainer trainer(spec, options_.parallel, options_.team, options_.recovery, false);
    if (options_.team.is_newcomer()) {
      base.reset();
      if (!tell(trainer, trainer.run(run_options(trainer)))) return WorkerEnd::at_once;
    } else {
      trainer.load({.path = options_.base, .opened = &*base});
      trainer.remember_base(std::move(*base));
      say_ready(trainer);
    }
    PropagationRuns propagation(trainer);
    while (true) {
      const std::optional<std::string> line = channel_.wait_for_line();
      if (!line) return WorkerEnd::at_once;
      const std::optional<record::RunRequest> request = record::run_request_from_line(*line);
      if (!request) return WorkerEnd::in_order;
      if (!trainer.regroup()) fail(ErrorCode::internal, "too few ranks are left for another run");
      if (!tell(trainer, answer(trainer, propagation, *request))) return WorkerEnd::at_once;
    }
  }

 private:
  void say_ready(Trainer& trainer) {
    const std::vector<std::string> digests = trainer.replica_digests();
    if (!trainer.leads()) return;
    record::Json environment = libtorch_environment(options_.parallel.device);
    environment["mpi"] = options_.mpi_library;
    channel_.send(record::to_line(record::Ready{digests[0], environment}));
  }

  // False when no rank is left to make another run with.
  bool tell(const Trainer& trainer, const record::RunResult& result) {
    if (trainer.leads()) channel_.send(record::to_line(record::Finished{result}));
    return !result.lost_ranks();
  }

  // What a rank that joins in the middle of a run needs, too.
  [[nodiscard]] RunOptions run_options(Trainer& trainer) const {
    RunOptions run;
    run.death_note = options_.death_note;
    run.command = options_.command;
    run.start_file = options_.base;
    run.checkpoint = [&trainer](const std::string& saves_to) {
      trainer.save(saves_to, record::Json::object());
      return saves_to;
    };
    return run;
  }

  record::RunResult answer(Trainer& trainer, PropagationRuns& propagation,
                           const record::RunRequest& request) {
    record::RunResult result;
    RunOptions run = run_options(trainer);
    std::error_code ignored;
    // The driver reads the files of a job that it launches again.
    const bool ends_at_once = options_.recovery.kind == record::RecoveryKind::relaunch;
    if (ends_at_once) run.death_note = request.checkpoint + ".deaths";
    if (trainer.leads()) std::filesystem::remove(run.death_note, ignored);
    run.order = order_of(request);
    run.id = request.id;
    request.faults.visit([&run](const auto& faults) { meet(faults, run); });
    run.saves_to = request.checkpoint + ".saved";
    const auto saves = [](const record::ProcessFault& fault) {
      return fault.phase == record::TrainingPhase::save;
    };
    if (std::any_of(run.process_faults.begin(), run.process_faults.end(), saves))
      run.save = [&trainer, file = run.saves_to] { trainer.save(file, record::Json::object()); };
    if (trainer.base_is_due()) {
      trainer.load({options_.base});
      trainer.remember_base(ckpt::Reader(options_.base));
    }
    const record::RecoverySpec recovery = request.recovery.value_or(options_.recovery);
    trainer.set_recovery(recovery);
    if (ends_at_once) run.ledger_folder = request.checkpoint + ".ledgers";
    try {
      if (request.relaunched) {
        run.relaunched = continue_from(trainer, request);
      } else {
        prepare(trainer, request);
      }
      if (request.golden && request.propagation)
        run.states = propagation.golden(*request.propagation, request.epochs, run.order);
    } catch (const mpi::AgreedError& error) {
      if (error.code() == ErrorCode::internal) throw;
      trainer.dismiss();
      result.id = request.id;
      result.status = record::RunStatus::rejected;
      result.detail = error.what();
      return result;
    }
    // In a current run, all differ from the base.
    const auto changed = request.relaunched ? std::vector<std::string>() : trainer.changed_tensors();
    run.epochs = request.epochs;
    run.keep_golden = request.golden;
    run.early_end = request.early_end;
    if (trainer.working() && trainer.group().rank() == trainer.group().size() - 1)
      run.before_first_step = [&] { drill(request.drill); };
    if (request.propagation && !request.golden) {
      const auto load_base = [&] {
        trainer.reset(options_.base, {}, {});
        trainer.set_seed(run.order);
      };
      result = propagation.trial(run, *request.propagation, {load_base, [&] { prepare(trainer, request); }});
    } else {
      result = trainer.run(run);
    }
    result.id = request.id;
    result.changed_tensors = changed;
    leaked_ = leaked_ || request.drill == Drill::leak;
    return result;
  }

  // The state of the last checkpoint, or of the beginning.
  record::Relaunch continue_from(Trainer& trainer, const record::RunRequest& request) const {
    record::Relaunch from = *request.relaunched;
    const double began = record::monotonic_seconds();
    if (from.checkpoint.empty()) {
      prepare(trainer, request);
    } else {
      trainer.load({from.checkpoint});
    }
    from.recoveries.back().times.state = record::monotonic_seconds() - began;
    return from;
  }

  // The data-order seed of a request's golden run.
  [[nodiscard]] std::uint64_t order_of(const record::RunRequest& request) const {
    return leaked_ ? 0 : request.order_seed.value_or(base_seed_);
  }

  // The state from which a run starts. A seed that only the file has is a fault, and stays.
  void prepare(Trainer& trainer, const record::RunRequest& request) const {
    load(trainer, request);
    if (leaked_ || (trainer.working() && trainer.seed() == base_seed_)) trainer.set_seed(order_of(request));
  }

  void load(Trainer& trainer, const record::RunRequest& request) const {
    const std::string file = options_.ignore_file ? options_.base.string() : request.checkpoint;
    if (request.altered && !full_load_) return trainer.reset(file, *request.altered, request.replicas);
    if (request.replicas.empty()) return trainer.load({file});
    LoadRequest some{options_.base};
    for (const int replica : request.replicas) some.replica_files.emplace(replica, file);
    trainer.load(some);
  }

  const WorkerOptions& options_;
  const mpi::Communicator& communicator_;
  LineChannel& channel_;
  std::uint64_t base_seed_ = 0;
  bool leaked_ = false;     // a drill: every later run takes another data order
  bool full_load_ = false;  // whatever a request says; the guard `checksums` checks when a file is loaded
};

}  // namespace

WorkerEnd serve(const WorkerOptions& options, const mpi::Communicator& communicator) {
  LineChannel channel(connect_to_driver(options.connect), "the driver");
  const int rank = communicator.rank();
  install_last_words(channel.descriptor(), rank);
  const HangUpWatch watch(channel.descriptor());
  try {
    channel.send(record::to_line(record::Hello{rank, communicator.size(), static_cast<int>(::getpid())}));
    return Worker(options, communicator, channel).run();
  } catch (const std::exception& error) {
    spdlog::error("rank {}: {}", rank, error.what());
    channel.send(record::to_line(record::Broken{rank, {record::FailureReason::exception, error.what(), 0}}));
    return WorkerEnd::at_once;
  }
}

}  // namespace bitrift::train
