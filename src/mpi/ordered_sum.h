// Sums over ranks in an order of our own.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include "mpi/communicator.h"

namespace bitrift::mpi {

/// Adds an array over all ranks, in place: every element becomes ((x0 + x1) + x2) + ... by ascending rank. So
/// the bits depend neither on the MPI library nor on the algorithm that it would choose for a size, nor on
/// how a larger array was divided, and are the same on all ranks. Each rank owns a slice: slices are sent to
/// their owners, added in order, and sent back (2 (N - 1) / N of the data goes out of each rank, as in a
/// ring). Works while other things are computed; progress is made in advance(). All ranks must start sums
/// with equal tags in the same way. T: float or double.
template <typename T>
class OrderedSum {
 public:
  /// The array must outlive this. `tag`: 0 to 2^14, different for sums that are under way together. owner:
  /// keeps the array alive. With one, a sum that is under way may be destroyed, as when an exception unwinds:
  /// array and buffers then stay until the process ends, because MPI may still use them. The tag must not be
  /// used on this communicator after that.
  OrderedSum(Communicator communicator, T* data, std::size_t count, int tag,
             std::shared_ptr<const void> owner = {});
  OrderedSum(OrderedSum&&) noexcept;
  OrderedSum& operator=(OrderedSum&&) noexcept;
  ~OrderedSum();

  /// Begins. The array must be left alone until advance() says so. May be called again after that.
  void start();
  /// Whether the sum is complete in the array. Throws RankFailed or Error(internal).
  bool advance();
  /// advance() until it is there.
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
