// Which links fail in a run, and from when on. Inside train/ only.
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
  /// Those of this run. What earlier ones did is forgotten.
  void arm(std::vector<record::FailedLink> links);
  [[nodiscard]] bool any() const noexcept { return !links_.empty(); }
  /// The step of this run, 1-based, that is under way.
  void at_step(std::int64_t step) { step_ = step; }
  /// Those that have failed by now.
  [[nodiscard]] std::vector<record::FailedLink> failed() const;
  /// A message that this rank sends over this slow link is late.
  void count(const record::FailedLink& link);
  /// How long the step under way took on this rank.
  void took(double seconds);
  /// Adds up what all ranks counted, and note_times(). Collective; sends nothing where nothing is armed.
  void gather(const mpi::Communicator& ranks, record::RunResult& result) const;
  /// What steps took before and behind each failure of a result.
  void note_times(record::RunResult& result) const;
  /// Those of which a result says nothing: the run never reached them.
  [[nodiscard]] std::vector<record::FailedLink> missing(const record::RunResult& result) const;

 private:
  std::vector<record::FailedLink> links_;
  std::vector<std::int64_t> late_;  // by link: messages of this rank
  std::int64_t step_ = 0;
  std::vector<std::pair<std::int64_t, double>> took_;  // step, seconds
};

}  // namespace bitrift::train
