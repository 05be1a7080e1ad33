// Inside mpi/ only: memory that MPI may still use after the object that waited for its messages is gone.
#pragma once

#include <vector>

#include <mpi.h>

namespace bitrift::mpi {

/// Sums begin with this tag; other messages stay below. MPI guarantees tags up to 32767 only.
inline constexpr int first_sum_tag = 1 << 14;
inline constexpr int sum_tags = 1 << 14;

/// Buffers and the messages in progress in them. Not every library can cancel a send, and waiting for it
/// could take forever when another rank is gone.
struct LeftOver {
  LeftOver() = default;
  LeftOver(LeftOver&&) = delete;
  LeftOver& operator=(LeftOver&&) = delete;
  virtual ~LeftOver() = default;
  /// Whether MPI may still read or write the memory. Waits for nothing.
  virtual bool in_use() noexcept = 0;
  LeftOver* next_left = nullptr;  ///< of those that were abandoned
};

/// Deletes it as soon as MPI is done with it: now, or whenever another one is abandoned.
void give_up(LeftOver* memory) noexcept;

/// Forgets the requests that have ended. Each is tested separately: after a rank died, a call on several
/// requests also frees some that Open MPI (5.0) still works on, and then aborts when those end. Without `all`
/// it stops at the first that is in progress: a test of an idle request gives the core away. Returns an error
/// code.
[[nodiscard]] int forget_ended(std::vector<MPI_Request>& requests, bool all) noexcept;
/// Whether some of these are still in progress, whatever errors the others ended with.
[[nodiscard]] bool any_under_way(std::vector<MPI_Request>& requests) noexcept;

}  // namespace bitrift::mpi
