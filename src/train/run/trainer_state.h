// What a Trainer holds. Inside train/ only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ckpt/reader.h"
#include "dataset/dataset.h"
#include "record/run.h"
#include "spec/training_spec.h"
#include "train/parallel/rank_layout.h"
#include "train/parallel/strategy.h"
#include "train/run/golden_states.h"
#include "train/run/guards.h"
#include "train/run/trajectory.h"
#include "train/state/session.h"
#include "train/step/autocast.h"
#include "train/step/loss_scaler.h"

namespace bitrift::train {

/// What a step did, the same on all ranks.
struct StepResult {
  BatchResult batch;
  bool stopped = false;  ///< the loss is not finite and no loss scaling excuses it: nothing was updated
  std::string alarm;     ///< what a guard that stops says; "" when the run goes on
};

/// The session, and what works on it. Everything but `session` is fixed for the life of the process, or
/// derived from it.
struct TrainerState {
  /// fresh: with initial values; else for a load to fill. Collective.
  TrainerState(record::TrainingSpec spec_, record::Parallel parallel_, const mpi::Communicator& world,
               std::shared_ptr<const nn::Dataset> data_, bool fresh);

  [[nodiscard]] std::int64_t steps_per_epoch() const { return data->train_size() / spec.batch_size; }
  [[nodiscard]] std::int64_t total_steps() const { return steps_per_epoch() * spec.epochs; }
  /// Samples of the batch that is next. Valid until the next call.
  [[nodiscard]] std::span<const std::int64_t> next_batch();
  /// Forward, backward and, when the loss is finite, the update; counts the step. Collective.
  StepResult step(std::span<const std::int64_t> batch);
  /// State digest of each replica. Collective.
  [[nodiscard]] std::vector<std::string> digests();
  /// Replica 0's parameters, under ddp its buffers, and its optimizer state when `with_optimizer`, to all
  /// replicas. Collective.
  void share_state(bool with_optimizer);

  record::TrainingSpec spec;
  record::Parallel parallel;
  Layout layout;
  std::shared_ptr<const nn::Dataset> data;
  Precision precision;
  LossScaler scaler;
  Guards guards;
  Session session;
  Strategy strategy;
  std::optional<ckpt::Reader> base_file;
  std::map<std::string, std::string> base;  ///< path to bytes, see Trainer::remember_base()
  /// Tensors that the last reset() read from a file; absent after a load() of everything.
  std::optional<std::vector<std::string>> altered;
  std::vector<std::string> changed;  ///< tensors that were other than in `base` when loaded
  /// By RunOptions::order; see RunOptions::keep_golden.
  std::map<std::uint64_t, Trajectory> golden;
  GoldenStates golden_states;  ///< see RunOptions::states

 private:
  [[nodiscard]] bool update();
  void limit_gradients();
  [[nodiscard]] std::string first_alarm() const;
  void expect_batches(std::span<const std::int64_t> batch);

  // Derived from the session's seed and epoch; sorting an epoch takes longer than comparing two numbers.
  std::vector<std::int64_t> order_;
  std::optional<std::pair<std::uint64_t, std::int64_t>> order_of_;
};

}  // namespace bitrift::train
