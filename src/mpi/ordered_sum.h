// Sums over ranks in an order that bitrift chooses.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "mpi/communicator.h"

namespace bitrift::mpi {

/// Adds arrays, the terms, element by element: ((x0 + x1) + x2) + ... by ascending term. So the bits depend
/// neither on the MPI library nor on the algorithm that it would choose for a size, nor on which rank holds
/// which term, nor on how a larger array was divided, and are the same on all ranks. Each rank owns a slice:
/// slices are sent to their owners, added in order, and sent back (with one term per rank 2 (N - 1) / N of
/// the data goes out of each rank, as in a ring). Runs while other things are computed; advance() makes
/// progress. All ranks must start sums with equal tags in the same way. T: float or double.
template <typename T>
class OrderedSum {
 public:
  /// One term per rank, by rank; the sum replaces it. The array must outlive this. `tag`: 0 to 2^14,
  /// different for sums that are in progress together. owner: keeps the array alive. With an owner, a sum
  /// that is in progress may be destroyed, as when an exception unwinds: array and buffers then stay until
  /// MPI is done with them. The tag must not be used on this communicator after that.
  OrderedSum(const Communicator& communicator, T* data, std::size_t count, int tag,
             std::shared_ptr<const void> owner = {});
  /// Any number of terms per rank, and at least one in all. holders: by term, the rank that holds it; the
  /// same on all ranks. terms: this rank's, ascending; the sum replaces the first. A rank without terms also
  /// owns a slice. Throws Error(internal) when these do not fit each other.
  OrderedSum(Communicator communicator, std::vector<T*> terms, std::size_t count, std::vector<int> holders,
             int tag, std::shared_ptr<const void> owner = {});
  OrderedSum(OrderedSum&&) noexcept;
  OrderedSum& operator=(OrderedSum&&) noexcept;
  ~OrderedSum();

  /// Begins. The arrays must not be touched until advance() returns true. May be called again after that.
  void start();
  /// Whether the sum is complete in the array. Throws RankFailed or Error(internal); the sum must not be
  /// started again after that. wait() certainly notices a death; this does once some rank has revoked the
  /// communicator (survivors.h).
  bool advance();
  /// Calls advance() until the sum is complete.
  void wait();

 private:
  struct State;
  struct Release {
    void operator()(State* state) const noexcept;
  };
  std::unique_ptr<State, Release> state_;
};

extern template class OrderedSum<float>;
extern template class OrderedSum<double>;

}  // namespace bitrift::mpi
