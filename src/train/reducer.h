// How gradients of replicas become one.
#pragma once

#include <span>

#include "mpi/communicator.h"

namespace bitrift::train {

/// Averages values over replicas, in place; on return all replicas hold the same bits. Collective.
class Reducer {
 public:
  virtual ~Reducer() = default;
  virtual void mean(std::span<float> values) = 0;
};

/// The mean as ((x0 + x1) + x2 + ...) / N: Communicator::ordered_sum, then one division. Nothing is rounded
/// for N = 1.
class OrderedReducer : public Reducer {
 public:
  explicit OrderedReducer(mpi::Communicator communicator) : communicator_(std::move(communicator)) {}
  void mean(std::span<float> values) override;

 private:
  mpi::Communicator communicator_;
};

}  // namespace bitrift::train
