#include "mpi/communicator.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <numeric>

#include "core/crc32c.h"
#include "core/log.h"
#include "mpi/checked.h"
#include "mpi/handles.h"
#include "mpi/pulse.h"

namespace bitrift::mpi {
namespace {

int int_count(std::size_t count) {
  if (count > static_cast<std::size_t>(INT_MAX)) {
    fail(ErrorCode::unsupported, "a message of {} elements is beyond what one MPI call carries ({})", count,
         INT_MAX);
  }
  return static_cast<int>(count);
}

// Sent with the data, because a call may report success without the data of a dead rank: in Open MPI 5.0.11,
// MPI_Allgatherv ignores the error of the broadcast within it, and the split binary tree of MPI_Bcast, which
// is used for 16 to 32 KB among 256 and more ranks, ignores that of a receive. The number of the exchange
// ensures that data which an earlier exchange left in a buffer of the library are not taken for this one's.
struct Seal {
  std::uint32_t sum = 0;
  Seal() = default;
  Seal(const void* data, std::size_t size, std::uint32_t exchange)
      : sum(crc32c(data, size, crc32c(&exchange, sizeof exchange))) {}
  void check(const void* data, std::size_t size, std::uint32_t exchange, const char* call) const {
    if (sum != Seal(data, size, exchange).sum)
      throw RankFailed(std::string(call) + ": reports success, but data of a rank are missing");
  }
};

// The size of a text, which is known before it arrives.
struct TextHeader {
  std::uint32_t size = 0;
  Seal text = {};
};

// Larger broadcasts are left to MPI, whose algorithms for this size return the error: a copy takes time.
constexpr std::size_t most_sealed_broadcast = std::size_t{1} << 16;

}  // namespace

bool is_rank_failure([[maybe_unused]] int code) noexcept {
#ifdef MPIX_ERR_PROC_FAILED
  int kind = 0;
  return MPI_Error_class(code, &kind) == MPI_SUCCESS &&
         (kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_PROC_FAILED_PENDING || kind == MPIX_ERR_REVOKED);
#else
  return false;
#endif
}

void check_code(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  const std::string message =
      fmt::format("{}: {}", call,
                  length > 0 ? std::string(text.data(), static_cast<std::size_t>(length))
                             : fmt::format("error code {}", code));
  if (is_rank_failure(code)) throw RankFailed(message);
  throw Error(ErrorCode::internal, message);
}

Request::Request(std::unique_ptr<RequestHandle> state) noexcept : state_(std::move(state)) {}
Request::Request(Request&&) noexcept = default;

Request& Request::operator=(Request&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Request::~Request() {
  try {
    wait();
  } catch (const std::exception& error) {
    spdlog::warn("{}", error.what());
  }
}

void Request::wait() {
  if (!state_) return;
  const std::unique_ptr<RequestHandle> state = std::move(state_);
  const Waiting others;
  check_code(MPI_Wait(&state->handle, MPI_STATUS_IGNORE), "MPI_Wait");
}

bool Request::test() {
  if (!state_) return true;
  int done = 0;
  const int code = MPI_Test(&state_->handle, &done, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS || done != 0) state_.reset();
  check_code(code, "MPI_Test");
  return !state_;
}

Communicator::Communicator() = default;

Communicator::Communicator(std::shared_ptr<CommunicatorHandle> state) : state_(std::move(state)) {
  check_code(MPI_Comm_rank(state_->handle, &rank_), "MPI_Comm_rank");
  check_code(MPI_Comm_size(state_->handle, &size_), "MPI_Comm_size");
}

void Communicator::barrier() const {
  const Waiting others;
  if (size_ > 1) check_code(MPI_Barrier(state_->handle), "MPI_Barrier");
}

void Communicator::broadcast(void* data, std::size_t size, int root) const {
  if (size_ == 1) return;
  const Waiting others;
  if (size > most_sealed_broadcast) {
    check_code(MPI_Bcast(data, int_count(size), MPI_BYTE, root, state_->handle), "MPI_Bcast");
    return;
  }
  const std::uint32_t exchange = state_->exchanges++;
  std::string frame(size + sizeof(Seal), '\0');
  if (rank_ == root) {
    const Seal seal(data, size, exchange);
    std::memcpy(frame.data(), data, size);
    std::memcpy(frame.data() + size, &seal, sizeof seal);
  }
  check_code(MPI_Bcast(frame.data(), int_count(frame.size()), MPI_BYTE, root, state_->handle), "MPI_Bcast");
  if (rank_ == root) return;
  Seal seal;
  std::memcpy(&seal, frame.data() + size, sizeof seal);
  seal.check(frame.data(), size, exchange, "MPI_Bcast");
  std::memcpy(data, frame.data(), size);
}

void Communicator::broadcast(std::string& text, int root) const {
  if (size_ == 1) return;
  const Waiting others;
  const std::uint32_t exchange = state_->exchanges++;
  TextHeader header;
  if (rank_ == root)
    header = {static_cast<std::uint32_t>(int_count(text.size())), Seal(text.data(), text.size(), exchange)};
  broadcast(&header, sizeof header, root);
  text.resize(header.size);
  check_code(MPI_Bcast(text.data(), int_count(text.size()), MPI_BYTE, root, state_->handle), "MPI_Bcast");
  header.text.check(text.data(), text.size(), exchange, "MPI_Bcast");
}

// The texts of all ranks, as long as the longest: `gather` puts this many bytes of each into its target.
template <typename Gather>
std::vector<std::string> Communicator::gathered(const std::string& mine, bool here,
                                                const Gather& gather) const {
  const Waiting others;
  const std::uint32_t exchange = state_->exchanges++;
  const TextHeader own{static_cast<std::uint32_t>(int_count(mine.size())),
                       Seal(mine.data(), mine.size(), exchange)};
  std::vector<TextHeader> headers(static_cast<std::size_t>(size_));
  allgather_equal(&own, sizeof own, headers.data());
  const std::size_t longest = std::ranges::max(headers, {}, &TextHeader::size).size;
  std::string padded = mine, all(here ? longest * headers.size() : 0, '\0');
  padded.resize(longest);
  if (longest > 0) gather(padded.data(), int_count(longest), all.data());
  std::vector<std::string> texts;
  for (std::size_t r = 0; here && r < headers.size(); ++r) {
    texts.push_back(all.substr(longest * r, headers[r].size));
    headers[r].text.check(texts.back().data(), texts.back().size(), exchange, "MPI_Allgather");
  }
  return texts;
}

std::vector<std::string> Communicator::gather(const std::string& mine, int root) const {
  if (size_ == 1) return {mine};
  return gathered(mine, rank_ == root, [&](const char* data, int size, char* all) {
    check_code(MPI_Gather(data, size, MPI_BYTE, all, size, MPI_BYTE, root, state_->handle), "MPI_Gather");
  });
}

std::vector<std::string> Communicator::allgather(const std::string& mine) const {
  if (size_ == 1) return {mine};
  return gathered(mine, true, [&](const char* data, int size, char* all) {
    check_code(MPI_Allgather(data, size, MPI_BYTE, all, size, MPI_BYTE, state_->handle), "MPI_Allgather");
  });
}

void Communicator::allgather_equal(const void* mine, std::size_t size, void* out) const {
  if (size_ == 1) {
    std::memcpy(out, mine, size);
    return;
  }
  const std::uint32_t exchange = state_->exchanges++;
  const Waiting others;
  const std::size_t slot = size + sizeof(Seal);
  std::string frame(slot, '\0'), all(slot * static_cast<std::size_t>(size_), '\0');
  const Seal own(mine, size, exchange);
  std::memcpy(frame.data(), mine, size);
  std::memcpy(frame.data() + size, &own, sizeof own);
  check_code(MPI_Allgather(frame.data(), int_count(slot), MPI_BYTE, all.data(), int_count(slot), MPI_BYTE,
                           state_->handle),
             "MPI_Allgather");
  for (std::size_t r = 0; r < static_cast<std::size_t>(size_); ++r) {
    Seal seal;
    std::memcpy(&seal, all.data() + slot * r + size, sizeof seal);
    seal.check(all.data() + slot * r, size, exchange, "MPI_Allgather");
    std::memcpy(static_cast<char*>(out) + size * r, all.data() + slot * r, size);
  }
}

void Communicator::send(const void* data, std::size_t size, int to, int tag) const {
  const Waiting others;
  check_code(MPI_Send(data, int_count(size), MPI_BYTE, to, tag, state_->handle), "MPI_Send");
}

void Communicator::receive(void* data, std::size_t size, int from, int tag) const {
  const Waiting others;
  MPI_Status status{};
  check_code(MPI_Recv(data, int_count(size), MPI_BYTE, from, tag, state_->handle, &status), "MPI_Recv");
  int received = 0;
  check_code(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
  if (received != int_count(size)) {
    fail(ErrorCode::internal, "rank {} expected {} bytes from rank {} and received {}", rank_, size, from,
         received);
  }
}

Request Communicator::start_send(const void* data, std::size_t size, int to, int tag) const {
  auto request = std::make_unique<RequestHandle>();
  check_code(MPI_Isend(data, int_count(size), MPI_BYTE, to, tag, state_->handle, &request->handle),
             "MPI_Isend");
  return Request(std::move(request));
}

Request Communicator::start_receive(void* data, std::size_t size, int from, int tag) const {
  auto request = std::make_unique<RequestHandle>();
  check_code(MPI_Irecv(data, int_count(size), MPI_BYTE, from, tag, state_->handle, &request->handle),
             "MPI_Irecv");
  return Request(std::move(request));
}

Communicator Communicator::duplicate() const {
  if (size_ == 1) return *this;
  MPI_Comm handle = MPI_COMM_NULL;
  const Waiting others;
  check_code(MPI_Comm_dup(state_->handle, &handle), "MPI_Comm_dup");
  Communicator made(adopt(handle));
  settle(handle);
  return made;
}

Communicator Communicator::split(int color, int key) const {
  if (size_ == 1) return *this;
  MPI_Comm handle = MPI_COMM_NULL;
  const Waiting others;
  check_code(MPI_Comm_split(state_->handle, color, key, &handle), "MPI_Comm_split");
  Communicator made(adopt(handle));
  settle(handle);
  return made;
}

void agree(const Communicator& communicator, const Error* error) {
  if (communicator.size() == 1) {
    if (error != nullptr) throw AgreedError(error->code(), error->what());
    return;
  }
  std::string mine;
  if (error != nullptr)
    mine = static_cast<char>('A' + static_cast<int>(error->code())) + std::string(error->what());
  for (const std::string& text : communicator.allgather(mine)) {
    if (!text.empty()) throw AgreedError(static_cast<ErrorCode>(text[0] - 'A'), text.substr(1));
  }
}

}  // namespace bitrift::mpi
