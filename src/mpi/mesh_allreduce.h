// Allreduce by a schedule of messages between neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "mpi/communicator.h"
#include "mpi/local_schedule.h"

namespace bitrift::mpi {

/// Runs a schedule (comm/mesh_schedule.h) that comm::verify has proved: afterwards every rank has the sum of
/// all ranks' arrays. The order of additions is the schedule's. So repeated runs give the same bits, and all
/// ranks have the same bits if the proof says `one_order`. Runs while other things are computed; advance()
/// makes progress. All ranks must start sums with equal tags in the same way. T: float, double, int32_t or
/// int64_t; integers wrap around.
template <typename T>
class MeshAllreduce {
 public:
  /// The array must outlive this. tag, owner: as for OrderedSum, with which this shares its tags. Throws
  /// Error(bad_input) if the ranks are not as many as the live chips, and Error(unsupported) for a chunk that
  /// one MPI call cannot carry.
  MeshAllreduce(Communicator communicator, std::shared_ptr<const LocalSchedule> schedule, T* data,
                std::size_t count, int tag, std::shared_ptr<const void> owner = {});
  MeshAllreduce(MeshAllreduce&&) noexcept;
  MeshAllreduce& operator=(MeshAllreduce&&) noexcept;
  ~MeshAllreduce();

  /// A message that has arrived and is not yet added or copied.
  struct Arrival {
    const LocalSchedule::Step& step;
    int from;  ///< rank of the sender
    T* data;   ///< the received data, the receiver's own: may be altered
    std::size_t count;
  };
  /// Called with every message that arrives here, so that a study can let a link alter it. Empty, which is
  /// the default: nothing is called. Not while a sum is in progress.
  void on_arrival(std::function<void(const Arrival&)> look);

  /// Called for every message that may be sent: returns the seconds for which the link to this rank holds it,
  /// so that a study can have a slow link. Messages of one link stay in order; those of other links do not
  /// wait for them. Empty, which is the default: nothing is called, and nothing held. Not while a sum is in
  /// progress.
  void on_send(std::function<double(int to)> hold);

  /// Begins. The array must not be touched until advance() returns true. May be called again after that.
  void start();
  /// Whether the sum is complete in the array. Throws RankFailed, or Error(internal), also where a
  /// neighbour's array has another size; the sum must not be started again after that. Only the
  /// neighbours of a dead rank notice its death; the others do once a rank revokes the communicator
  /// (survivors.h).
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

extern template class MeshAllreduce<float>;
extern template class MeshAllreduce<double>;
extern template class MeshAllreduce<std::int32_t>;
extern template class MeshAllreduce<std::int64_t>;

}  // namespace bitrift::mpi
