#include "train/serve/serve.h"

#include <csignal>
#include <optional>
#include <stdexcept>
#include <utility>

#include <unistd.h>

#include "ckpt/reader.h"
#include "core/log.h"
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

using record::Drill;

// What a drill does on the rank that it falls on.
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
    mpi::agreed(communicator_, [&] {
      base.emplace(options_.base);
      spec = options_.choose_guards(checkpoint_spec(*base));
    });
    prepare_libtorch(spec.threads);
    // Of a file with several replicas each rank reads its own part: too much to know here.
    full_load_ = spec.guards.checksums || base->attribute(replicas_attribute).has_value();
    Trainer trainer(spec, options_.parallel, communicator_, false);
    trainer.load({.path = options_.base, .opened = &*base});
    trainer.remember_base(std::move(*base));
    base_seed_ = trainer.seed();
    PropagationRuns propagation(trainer);
    const std::string digest = trainer.replica_digests()[0];
    if (communicator_.rank() == 0) {
      record::Json environment = libtorch_environment(options_.parallel.device);
      environment["mpi"] = options_.mpi_library;
      channel_.send(record::to_line(record::Ready{digest, environment}));
    }
    while (true) {
      const std::optional<std::string> line = channel_.wait_for_line();
      if (!line) return WorkerEnd::at_once;
      const std::optional<record::RunRequest> request = record::run_request_from_line(*line);
      if (!request) return WorkerEnd::in_order;
      const record::RunResult result = answer(trainer, propagation, *request);
      if (communicator_.rank() == 0) channel_.send(record::to_line(record::Finished{result}));
    }
  }

 private:
  record::RunResult answer(Trainer& trainer, PropagationRuns& propagation,
                           const record::RunRequest& request) {
    record::RunResult result;
    RunOptions run;
    run.order = order_of(request);
    try {
      prepare(trainer, request);
      if (request.golden && request.propagation)
        run.states = propagation.golden(*request.propagation, request.epochs, run.order);
    } catch (const mpi::AgreedError& error) {
      if (error.code() == ErrorCode::internal) throw;
      result.id = request.id;
      result.status = record::RunStatus::rejected;
      result.detail = error.what();
      return result;
    }
    const std::vector<std::string> changed = trainer.changed_tensors();
    run.epochs = request.epochs;
    run.keep_golden = request.golden;
    run.early_end = request.early_end;
    if (communicator_.rank() == communicator_.size() - 1)
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

  // The data-order seed of a request's golden run.
  [[nodiscard]] std::uint64_t order_of(const record::RunRequest& request) const {
    return leaked_ ? 0 : request.order_seed.value_or(base_seed_);
  }

  // What a run starts from. A seed that the file alone has is a fault, and stays.
  void prepare(Trainer& trainer, const record::RunRequest& request) const {
    load(trainer, request);
    if (leaked_ || trainer.seed() == base_seed_) trainer.set_seed(order_of(request));
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
  bool full_load_ = false;  // whatever a request says; the guard `checksums` looks when a file is loaded
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
