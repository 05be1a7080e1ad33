// The messages of gradients that arrive with a flipped bit. Inside train/ only.
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/communicator.h"
#include "record/fault/link_fault.h"
#include "record/run.h"

namespace bitrift::train {

/// The link faults of a run, and the results of those whose receiver is this rank.
class MessageFlips {
 public:
  /// The faults of this run, of all ranks. The effects of earlier ones are forgotten.
  void arm(std::vector<record::LinkFault> faults);
  /// The current step of this run, 1-based.
  void at_step(std::int64_t step);
  /// The faults of this bucket in that step, except those that have struck on this rank: when a step is
  /// computed again, they have passed.
  [[nodiscard]] std::vector<record::LinkFault> of_bucket(std::int64_t bucket) const;
  /// Whether some are of a step after the first `steps`.
  [[nodiscard]] bool due_after(std::int64_t steps) const;
  void note(record::AlteredMessage altered) { altered_.push_back(std::move(altered)); }
  /// The notes of all ranks, by fault in the order of arm(). Collective; sends nothing if nothing is armed.
  void gather(const mpi::Communicator& ranks, record::RunResult& result) const;
  /// The faults that a gathered result does not mention: the run never reached them.
  [[nodiscard]] std::vector<record::LinkFault> missing(const record::RunResult& result) const;

 private:
  std::vector<record::LinkFault> faults_;
  std::vector<record::AlteredMessage> altered_;
  std::int64_t step_ = 0;
  bool near_ = false;  // some fault is in this step
};

}  // namespace bitrift::train
