#include "mpi/communicator.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <numeric>

#include "core/log.h"
#include "mpi/checked.h"
#include "mpi/handles.h"

namespace bitrift::mpi {
namespace {

int int_count(std::size_t count) {
  if (count > static_cast<std::size_t>(INT_MAX)) {
    fail(ErrorCode::unsupported, "a message of {} elements is beyond what one MPI call carries ({})", count,
         INT_MAX);
  }
  return static_cast<int>(count);
}

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
  if (size_ > 1) check_code(MPI_Barrier(state_->handle), "MPI_Barrier");
}

void Communicator::broadcast(void* data, std::size_t size, int root) const {
  if (size_ > 1) check_code(MPI_Bcast(data, int_count(size), MPI_BYTE, root, state_->handle), "MPI_Bcast");
}

void Communicator::broadcast(std::string& text, int root) const {
  if (size_ == 1) return;
  std::uint64_t size = text.size();
  broadcast(&size, sizeof size, root);
  text.resize(size);
  broadcast(text.data(), text.size(), root);
}

std::vector<std::string> Communicator::gather(const std::string& mine, int root) const {
  if (size_ == 1) return {mine};
  const int size = int_count(mine.size());
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<int> sizes(ranks), starts(ranks);
  check_code(MPI_Gather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, root, state_->handle), "MPI_Gather");
  std::string all;
  if (rank_ == root) {
    std::size_t total = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      starts[r] = int_count(total);
      total += static_cast<std::size_t>(sizes[r]);
    }
    all.resize(static_cast<std::size_t>(int_count(total)));
  }
  check_code(MPI_Gatherv(mine.data(), size, MPI_BYTE, all.data(), sizes.data(), starts.data(), MPI_BYTE, root,
                         state_->handle),
             "MPI_Gatherv");
  std::vector<std::string> result;
  for (std::size_t r = 0; rank_ == root && r < ranks; ++r) {
    result.push_back(all.substr(static_cast<std::size_t>(starts[r]), static_cast<std::size_t>(sizes[r])));
  }
  return result;
}

std::vector<std::string> Communicator::allgather(const std::string& mine) const {
  if (size_ == 1) return {mine};
  const int size = int_count(mine.size());
  const auto ranks = static_cast<std::size_t>(size_);
  std::vector<int> sizes(ranks), starts(ranks);
  check_code(MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, state_->handle), "MPI_Allgather");
  std::size_t total = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    starts[r] = int_count(total);
    total += static_cast<std::size_t>(sizes[r]);
  }
  std::string all(static_cast<std::size_t>(int_count(total)), '\0');
  check_code(MPI_Allgatherv(mine.data(), size, MPI_BYTE, all.data(), sizes.data(), starts.data(), MPI_BYTE,
                            state_->handle),
             "MPI_Allgatherv");
  std::vector<std::string> result;
  for (std::size_t r = 0; r < ranks; ++r) {
    result.push_back(all.substr(static_cast<std::size_t>(starts[r]), static_cast<std::size_t>(sizes[r])));
  }
  return result;
}

void Communicator::allgather_equal(const void* mine, std::size_t size, void* out) const {
  if (size_ == 1) {
    std::memcpy(out, mine, size);
    return;
  }
  const int count = int_count(size);
  check_code(MPI_Allgather(mine, count, MPI_BYTE, out, count, MPI_BYTE, state_->handle), "MPI_Allgather");
}

void Communicator::send(const void* data, std::size_t size, int to, int tag) const {
  check_code(MPI_Send(data, int_count(size), MPI_BYTE, to, tag, state_->handle), "MPI_Send");
}

void Communicator::receive(void* data, std::size_t size, int from, int tag) const {
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
  check_code(MPI_Comm_dup(state_->handle, &handle), "MPI_Comm_dup");
  Communicator made(adopt(handle));
  settle(handle);
  return made;
}

Communicator Communicator::split(int color, int key) const {
  if (size_ == 1) return *this;
  MPI_Comm handle = MPI_COMM_NULL;
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
