// Micro-batches of this rank's replica, prepared ahead on a thread if that pays off. Inside train/ only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataset/dataset.h"
#include "train/step/step_input.h"

namespace bitrift::train {

struct MicroBatch {
  std::vector<std::int64_t> samples;  ///< index in the data set of each row
  nn::Batch batch;
};

/// Part `index` of `count` equal contiguous parts.
[[nodiscard]] std::span<const std::int64_t> part(std::span<const std::int64_t> rows, int index, int count);

/// Not thread-safe; the data set must outlive it.
class Feed {
 public:
  /// with_batches: false if only the sample numbers are wanted. ahead: how many later steps a thread
  /// prepares; 0: no thread.
  Feed(const nn::Dataset& data, int replica, int replicas, int micro_batches, bool with_batches, int ahead);
  ~Feed();
  Feed(Feed&&) = delete;
  Feed& operator=(Feed&&) = delete;

  /// The micro-batches of a step, in order. Takes them from the thread if it prepared exactly this step, so a
  /// wrong guess costs time but never changes a batch. Rethrows what preparing threw.
  [[nodiscard]] std::vector<MicroBatch> take(const StepInput& step);
  /// Tells the thread about a step, after those that it already knows. Does nothing unless wants_more().
  void expect(const StepInput& step);
  /// Whether there is a thread that knows at most `ahead` steps.
  [[nodiscard]] bool wants_more() const;
  /// Steps that the thread knows and that were not taken.
  [[nodiscard]] std::size_t waiting() const;

 private:
  struct Thread;
  [[nodiscard]] std::vector<MicroBatch> prepare(const StepInput& step) const;

  const nn::Dataset& data_;
  int replica_, replicas_, micro_batches_, ahead_;
  bool with_batches_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace bitrift::train
