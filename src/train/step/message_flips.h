// Which messages of gradients are to arrive with a flipped bit. Inside train/ only.
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/communicator.h"
#include "record/fault/link_fault.h"
#include "record/run.h"

namespace bitrift::train {

/// The link faults of a run, and what became of those whose receiver this rank is.
class MessageFlips {
 public:
  /// The faults of this run, of all ranks. What earlier ones did is forgotten.
  void arm(std::vector<record::LinkFault> faults);
  /// The step of this run, 1-based, that is under way.
  void at_step(std::int64_t step);
  /// Those of this bucket in that step.
  [[nodiscard]] std::vector<record::LinkFault> of_bucket(std::int64_t bucket) const;
  /// Whether some are of a step behind the first `steps`.
  [[nodiscard]] bool due_after(std::int64_t steps) const;
  void note(record::AlteredMessage altered) { altered_.push_back(std::move(altered)); }
  /// What all ranks noted, by fault in the order of arm(). Collective; sends nothing where nothing is armed.
  void gather(const mpi::Communicator& ranks, record::RunResult& result) const;
  /// Those of which a gathered result says nothing: the run never reached them.
  [[nodiscard]] std::vector<record::LinkFault> missing(const record::RunResult& result) const;

 private:
  std::vector<record::LinkFault> faults_;
  std::vector<record::AlteredMessage> altered_;
  std::int64_t step_ = 0;
  bool near_ = false;  // some fault is of this step
};

}  // namespace bitrift::train
