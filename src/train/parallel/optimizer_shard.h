// Optimizer state that is sharded over replicas. Inside train/ only.
#pragma once

#include <cstdint>
#include <vector>

#include "dataset/torch.h"
#include "mpi/communicator.h"

namespace bitrift::train {

/// Which part takes each of some things of these sizes: the largest first, equal ones in their order, each to
/// the part that has least so far, the lowest of those. No part then has more than the mean and one thing.
[[nodiscard]] std::vector<int> spread_by_size(const std::vector<std::uint64_t>& sizes, int parts);

/// What one rank holds of the optimizer state of its stage (ZeRO stage 1: Rajbhandari et al., SC 2020,
/// section 5.1): that of whole parameters, spread_by_size() over the ranks that hold the same stage.
struct OptimizerShard {
  int part = 0;   ///< this rank among those
  int parts = 1;  ///< 1: every rank holds all
  [[nodiscard]] bool sharded() const noexcept { return parts > 1; }
};

/// The way of new values from the rank that updated a parameter to the others.
class ParameterExchange {
 public:
  /// owners: of parameters, ranks of peers. The tensors must outlive this.
  ParameterExchange(const std::vector<torch::Tensor>& parameters, const std::vector<int>& owners,
                    mpi::Communicator peers);
  /// Afterwards all have each parameter as its owner has it. Collective over peers. Throws as their calls do;
  /// parameters of others may then hold anything.
  void run();

 private:
  struct Owned {
    std::vector<torch::Tensor> large, small;
    std::size_t small_bytes = 0;
  };
  void send_small(const Owned& owned, int owner);

  mpi::Communicator peers_;
  std::vector<Owned> owned_;  // by owner
  std::vector<char> packed_;
};

}  // namespace bitrift::train
