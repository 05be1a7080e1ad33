// The cost of a run's checkpoints, and the interval that follows from it. Inside train/ and its programs.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "record/json/json.h"
#include "spec/checkpoint_policy.h"

namespace bitrift::train {

/// An interval between checkpoints, and the measured seconds from which it follows.
struct ChosenInterval {
  std::int64_t steps = 0;
  double seconds = 0;       ///< before rounding to steps
  double step_seconds = 0;  ///< mean of the run so far without its first step, evaluations included
  double cost = 0;          ///< seconds for which the training stops
  double persist = 0;       ///< async: from then until the disk has the file; 0 while none has finished
};

/// Keeps the times of a run's steps and of its saves. Times are readings of one monotonic clock in seconds,
/// of rank 0. durable() may be called from another thread than the rest.
class CheckpointClock {
 public:
  explicit CheckpointClock(record::CheckpointPolicy policy) : policy_(policy) {}

  /// A step and the work after it are over.
  void step_done(double now);
  /// A save began and let the training continue. async: its file does not exist yet.
  void saved(double began, double returned);
  /// async: the disk has the file of the next save in order.
  void durable(double now);

  /// The interval that policy.automatic asks for after the last save; at least one must be known. Daly's
  /// interval, or for saves in the background our own (spec/checkpoint_policy.h). The cost is the mean of the
  /// last eight saves. If other saves are known, untypical ones are left out: the first ones, which wait for
  /// new memory, and those that waited for the save before them. Remembers the result.
  ChosenInterval choose();

  /// {"written", "blocking": {"median", "max", "total"}, "persist": the same, "interval": {"steps",
  /// "seconds", "step", "cost", "persist", "mean_time_between_failures"}}; persist only with async, interval
  /// only if choose() was called. nullopt if nothing was saved during the run.
  [[nodiscard]] std::optional<record::Json> report() const;
  /// {"written", "step_seconds", "block_seconds", "persist_seconds"}: the number of earlier saves, and means;
  /// unknown ones are left out. For the provenance of a checkpoint that is being written.
  [[nodiscard]] record::Json so_far(double now) const;

 private:
  struct Save {
    double began = 0, returned = 0;
  };
  [[nodiscard]] std::vector<double> blocking() const;
  [[nodiscard]] std::vector<double> persist() const;
  [[nodiscard]] std::vector<double> typical_costs() const;
  [[nodiscard]] double mean_step(double until) const;

  record::CheckpointPolicy policy_;
  std::optional<double> first_step_;  // time at which it was over
  std::int64_t steps_ = 0;            // since then
  std::vector<Save> saves_;
  mutable std::mutex mutex_;     // of durable_
  std::vector<double> durable_;  // number of first saves
  std::optional<ChosenInterval> chosen_;
};

}  // namespace bitrift::train
