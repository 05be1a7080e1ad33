// The links that fail in a run, and from which step on. Inside train/ only.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "mpi/communicator.h"
#include "record/fault/failed_link.h"
#include "record/run.h"

namespace bitrift::train {

/// The links that fail in a run, the same on all ranks, and how many messages this rank sent late.
class LinkFailures {
 public:
  /// Arms the failures of this run. The effects of earlier ones are forgotten.
  void arm(std::vector<record::FailedLink> links);
  [[nodiscard]] bool any() const noexcept { return !links_.empty(); }
  /// The current step of this run, 1-based.
  void at_step(std::int64_t step) { step_ = step; }
  /// The links that have failed by now.
  [[nodiscard]] std::vector<record::FailedLink> failed() const;
  /// Counts a message that this rank sends late over this slow link.
  void count(const record::FailedLink& link);
  /// The time that the current step took on this rank.
  void took(double seconds);
  /// Adds up the counts of all ranks, and calls note_times(). Collective; sends nothing if nothing is armed.
  void gather(const mpi::Communicator& ranks, record::RunResult& result) const;
  /// The times of steps before and after each failure of a result.
  void note_times(record::RunResult& result) const;
  /// The failures that a result does not mention: the run never reached them.
  [[nodiscard]] std::vector<record::FailedLink> missing(const record::RunResult& result) const;

 private:
  std::vector<record::FailedLink> links_;
  std::vector<std::int64_t> late_;  // by link: messages of this rank
  std::int64_t step_ = 0;
  std::vector<std::pair<std::int64_t, double>> took_;  // step, seconds
};

}  // namespace bitrift::train
