// A group of ranks and their communication. No MPI type appears here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"

namespace bitrift::mpi {

struct CommunicatorHandle;  // mpi/handles.h
struct RequestHandle;

/// A peer died while a call needed it (ULFM's MPIX_ERR_PROC_FAILED or MPIX_ERR_REVOKED).
class RankFailed : public Error {
 public:
  explicit RankFailed(const std::string& text) : Error(ErrorCode::internal, text) {}
};

/// A send or receive in progress. Its buffer must live until wait() returns.
class Request {
 public:
  explicit Request(std::unique_ptr<RequestHandle> state) noexcept;
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();  ///< waits for whatever is still in progress; an error there is logged
  /// Throws RankFailed, or Error(internal) with MPI's own text.
  void wait();
  /// Whether it is complete; wait() and test() do nothing after that. Throws as wait() does. For a rank that
  /// sleeps between two tests, because a blocking call keeps a core busy.
  [[nodiscard]] bool test();

 private:
  std::unique_ptr<RequestHandle> state_;
};

/// Ranks 0 .. size - 1. Copies refer to the same group. Every call throws RankFailed when a peer is dead,
/// Error(internal) with MPI's own text for other failures of MPI, and Error(unsupported) for a message of 2
/// GiB or more. A collective delivers only what was sent: if MPI reports success without a dead rank's data,
/// that is RankFailed too. With one rank every collective is local: such a communicator needs no MPI at all.
class Communicator {
 public:
  /// One rank, without MPI.
  Communicator();
  explicit Communicator(std::shared_ptr<CommunicatorHandle> state);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  void barrier() const;
  /// `size` bytes of rank `root` to all.
  void broadcast(void* data, std::size_t size, int root) const;
  /// A text of any length from rank `root` to all.
  void broadcast(std::string& text, int root) const;
  /// One byte string of any length from every rank, by rank. On other ranks than `root` the result is empty.
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine, int root) const;
  [[nodiscard]] std::vector<std::string> allgather(const std::string& mine) const;
  /// `size` bytes from every rank, the same size on all, one after another by rank into `out` (size * size()
  /// bytes).
  void allgather_equal(const void* mine, std::size_t size, void* out) const;

  void send(const void* data, std::size_t size, int to, int tag) const;
  void receive(void* data, std::size_t size, int from, int tag) const;
  [[nodiscard]] Request start_send(const void* data, std::size_t size, int to, int tag) const;
  [[nodiscard]] Request start_receive(void* data, std::size_t size, int from, int tag) const;

  /// The ranks that pass the same color, numbered by (key, rank here). Collective.
  [[nodiscard]] Communicator split(int color, int key) const;

  /// A group of the same ranks whose messages never mix with those of this one. Collective.
  [[nodiscard]] Communicator duplicate() const;

  /// Whether this has an MPI communicator: not for one rank that no launcher started.
  [[nodiscard]] bool has_state() const noexcept { return state_ != nullptr; }
  /// For internal use in mpi/. Needs has_state(), which more than one rank always has.
  [[nodiscard]] const CommunicatorHandle& state() const noexcept { return *state_; }

 private:
  template <typename Gather>
  [[nodiscard]] std::vector<std::string> gathered(const std::string& mine, bool here,
                                                  const Gather& gather) const;

  std::shared_ptr<CommunicatorHandle> state_;
  int rank_ = 0;
  int size_ = 1;
};

/// Throws on all ranks when any rank passes an error: the error of the lowest such rank, so that no rank
/// waits for one that gave up. error: nullptr when this rank has none. Collective.
void agree(const Communicator& communicator, const Error* error);

/// An error that all ranks threw together: one of them may report it, all can leave in order.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// Runs `work` on every rank, then agree(). The ranks agree only on Error; other exceptions pass.
template <typename Work>
void agreed(const Communicator& communicator, const Work& work) {
  std::unique_ptr<Error> error;
  try {
    work();
  } catch (const RankFailed&) {
    throw;
  } catch (const Error& caught) {
    error = std::make_unique<Error>(caught);
  }
  agree(communicator, error.get());
}

}  // namespace bitrift::mpi
