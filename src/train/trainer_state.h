// What a Trainer holds. Inside train/ only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mpi/communicator.h"
#include "nn/dataset.h"
#include "record/run.h"
#include "record/training_spec.h"
#include "train/session.h"
#include "train/strategy.h"

namespace bitrift::train {

/// The session, and what works on it. Everything but `session` is fixed for the life of the process, or
/// derived from it.
struct TrainerState {
  TrainerState(record::TrainingSpec spec, record::Parallel parallel, mpi::Communicator communicator,
               nn::Dataset data);

  [[nodiscard]] bool staged() const { return parallel.kind == "pipeline"; }
  [[nodiscard]] int replicas() const { return staged() ? 1 : communicator.size(); }
  /// Samples of the batch that is next. Valid until the next call.
  [[nodiscard]] std::span<const std::int64_t> next_batch();
  /// Forward, backward and, when the loss is finite, the update; counts the step. Collective.
  BatchResult step(std::span<const std::int64_t> batch);
  /// State digest of each replica. Collective.
  [[nodiscard]] std::vector<std::string> digests();
  /// `training` completed with the test metrics of each replica. Collective.
  [[nodiscard]] std::vector<record::Evaluation> evaluate(const record::Evaluation& training);

  record::TrainingSpec spec;
  record::Parallel parallel;
  mpi::Communicator communicator;
  nn::Dataset data;
  Session session;
  std::unique_ptr<Strategy> strategy;
  std::map<std::string, std::string> base;  ///< path to bytes, see Trainer::remember_base()

 private:
  // Derived from the session's seed and epoch; sorting an epoch takes longer than comparing two numbers.
  std::vector<std::int64_t> order_;
  std::optional<std::pair<std::uint64_t, std::int64_t>> order_of_;
};

}  // namespace bitrift::train
