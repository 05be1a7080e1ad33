// Optimizer state that is sharded over replicas. Inside train/ only.
#pragma once

#include <cstdint>
#include <vector>

#include "dataset/torch.h"
#include "mpi/communicator.h"

namespace bitrift::train {

/// Distributes items of these sizes over parts: the largest first, equal ones in their order, each to the
/// part that has least so far, the lowest of those. Then no part has more than the mean plus one item.
[[nodiscard]] std::vector<int> spread_by_size(const std::vector<std::uint64_t>& sizes, int parts);

/// The part of its stage's optimizer state that one rank holds (ZeRO stage 1: Rajbhandari et al., SC 2020,
/// section 5.1): that of whole parameters, spread_by_size() over the ranks that hold the same stage.
struct OptimizerShard {
  int part = 0;   ///< index of this rank among those
  int parts = 1;  ///< 1: every rank holds all
  [[nodiscard]] bool sharded() const noexcept { return parts > 1; }
};

/// Sends new values from the rank that updated a parameter to all other ranks.
class ParameterExchange {
 public:
  /// owners: of parameters, ranks of peers. The tensors must outlive this.
  ParameterExchange(const std::vector<torch::Tensor>& parameters, const std::vector<int>& owners,
                    mpi::Communicator peers);
  /// Afterwards all ranks have each parameter as its owner has it. Collective over peers. Throws as their
  /// calls do; parameters of other owners may then hold anything.
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
