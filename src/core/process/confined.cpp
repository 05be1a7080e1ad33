#include "core/process/confined.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "core/process/subprocess.h"

namespace bitrift {
namespace {

using Clock = std::chrono::steady_clock;

// Before every request.
struct Order {
  std::uint64_t bytes = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t seconds = 0;
};

// Precedes every answer: the status, and the length.
enum class Kind : std::uint8_t { answer, error, foreign_error };
struct Head {
  Kind kind = Kind::answer;
  std::uint8_t code = 0;
  std::uint64_t bytes = 0;
};

// The descriptors under which the program finds its channels.
constexpr int requests_fd = 3;
constexpr int answers_fd = 4;

/// False when the other end is gone.
bool write_all(int fd, const void* data, std::size_t size) noexcept {
  const auto* at = static_cast<const std::uint8_t*>(data);
  while (size > 0) {
    const ssize_t done = ::send(fd, at, size, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

/// False at the end of the data, or when the deadline passed.
bool read_all(int fd, void* data, std::size_t size, const Clock::time_point* deadline) noexcept {
  auto* at = static_cast<std::uint8_t*>(data);
  while (size > 0) {
    if (deadline != nullptr) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - Clock::now()).count();
      pollfd waiting{fd, POLLIN, 0};
      const int ready =
          left <= 0 ? 0 : ::poll(&waiting, 1, static_cast<int>(std::min<long>(left, 1'000'000)));
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) return false;
    }
    const ssize_t done = ::read(fd, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

std::uint64_t address_space_now() {
  const std::string pages = read_text("/proc/self/statm");  // the first number, in pages
  return std::strtoull(pages.c_str(), nullptr, 10) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// AddressSanitizer reserves terabytes, of which it uses little.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool is_bounded = false;
#else
constexpr bool is_bounded = true;
#endif

void limit(int what, std::uint64_t most) noexcept {
  rlimit now{};
  ::getrlimit(static_cast<__rlimit_resource_t>(what), &now);
  now.rlim_cur = std::min<rlim_t>(most, now.rlim_max);
  ::setrlimit(static_cast<__rlimit_resource_t>(what), &now);
}

/// Keeps only the channels; the standard streams lead nowhere already.
void close_others() noexcept {
  if (::syscall(SYS_close_range, 5U, ~0U, 0U) == 0) return;
  const long most = std::min(::sysconf(_SC_OPEN_MAX), 65536L);
  for (int fd = 5; fd < most; ++fd) ::close(fd);
}

/// A descriptor other than those that the program gets as its channels.
FileDescriptor moved_up(FileDescriptor fd) {
  FileDescriptor moved(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 10));
  if (!moved) fail(ErrorCode::io, "no more files can be opened: {}", errno_text(errno));
  return moved;
}

struct Channel {
  FileDescriptor ours, theirs;
};

Channel open_channel(const std::string& where) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    fail(ErrorCode::io, "{}: no channel to another process: {}", where, errno_text(errno));
  }
  FileDescriptor ours(ends[0]);
  return {std::move(ours), moved_up(FileDescriptor(ends[1]))};
}

/// posix_spawn(3) with the channels where the program looks for them. Returns its error, 0 for none.
int spawn(const std::filesystem::path& program, const Channel& down, const Channel& up, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  for (int fd = 0; fd < 3; ++fd) ::posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  ::posix_spawn_file_actions_adddup2(&actions, down.theirs.get(), requests_fd);
  ::posix_spawn_file_actions_adddup2(&actions, up.theirs.get(), answers_fd);
  // Signals that the caller ignores or blocks, as Python does, are not ignored here.
  sigset_t all;
  sigset_t none;
  ::sigfillset(&all);
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::string name = program.string();
  std::array<char*, 2> arguments = {name.data(), nullptr};
  const int problem = ::posix_spawn(&pid, name.c_str(), &actions, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return problem;
}

/// Serves one request; false when the caller has gone.
bool serve_one(const ConfinedWork& work, std::uint64_t memory_at_start) {
  Order order;
  if (!read_all(requests_fd, &order, sizeof order, nullptr)) return false;
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto spent = static_cast<std::uint64_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
  limit(RLIMIT_CPU, spent + order.seconds + 1);
  if (is_bounded) limit(RLIMIT_AS, memory_at_start + order.memory_bytes);
  Head head;
  std::vector<std::uint8_t> answer;
  try {
    std::vector<std::uint8_t> request(order.bytes);
    if (!read_all(requests_fd, request.data(), request.size(), nullptr)) return false;
    answer = work(request);
  } catch (const std::exception& error) {
    const auto* ours = dynamic_cast<const Error*>(&error);
    head.kind = ours != nullptr ? Kind::error : Kind::foreign_error;
    head.code = static_cast<std::uint8_t>(ours != nullptr ? ours->code() : ErrorCode::bad_file);
    const std::string text = error.what();
    answer.assign(text.begin(), text.end());
  }
  head.bytes = answer.size();
  return write_all(answers_fd, &head, sizeof head) && write_all(answers_fd, answer.data(), answer.size());
}

}  // namespace

Confined::Confined(std::filesystem::path program) : program_(std::move(program)) {}

Confined::~Confined() { stop(); }

void Confined::start(const std::string& where) {
  Channel down = open_channel(where);
  Channel up = open_channel(where);
  pid_t pid = -1;
  if (const int problem = spawn(program_, down, up, pid); problem != 0) {
    fail(ErrorCode::unsupported, "{}: {} cannot be started: {}", where, program_.string(),
         errno_text(problem));
  }
  pid_ = pid;
  requests_ = std::move(down.ours);
  answers_ = std::move(up.ours);
}

void Confined::stop() noexcept {
  requests_.close();
  answers_.close();
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

/// Describes how the process ended, or ends it.
void Confined::fail_dead(const std::string& where, unsigned seconds) {
  int status = 0;
  pid_t done = ::waitpid(pid_, &status, WNOHANG);
  for (int i = 0; done == 0 && i < 100; ++i) {  // its channel closes a moment before it can be reaped
    ::usleep(1000);
    done = ::waitpid(pid_, &status, WNOHANG);
  }
  if (done == pid_) pid_ = -1;
  stop();
  const ExitStatus ended = ExitStatus::of(status);
  if (done == 0 || ended.signal == SIGXCPU) {
    fail(ErrorCode::bad_file, "{}: took more than {} seconds and was given up", where, seconds);
  }
  fail(ErrorCode::bad_file, "{}: the process that worked on it ended with {}; the data are damaged", where,
       ended.text());
}

std::vector<std::uint8_t> Confined::call(std::span<const std::uint8_t> request, const std::string& where,
                                         const ConfinedLimits& limits) {
  if (pid_ < 0) start(where);
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(3 * std::uint64_t{limits.seconds});
  const Order order{request.size(), limits.memory_bytes, limits.seconds};
  Head head;
  if (!write_all(requests_.get(), &order, sizeof order) ||
      !write_all(requests_.get(), request.data(), request.size()) ||
      !read_all(answers_.get(), &head, sizeof head, &deadline)) {
    fail_dead(where, limits.seconds);
  }
  if (head.bytes > std::max<std::uint64_t>(limits.answer_bytes, 65536)) {
    stop();
    fail(ErrorCode::bad_file, "{}: came to {} bytes, more than {}", where, head.bytes, limits.answer_bytes);
  }
  std::vector<std::uint8_t> answer(head.bytes);
  if (!read_all(answers_.get(), answer.data(), answer.size(), &deadline)) fail_dead(where, limits.seconds);
  if (head.kind == Kind::answer) return answer;
  const std::string text(answer.begin(), answer.end());
  throw Error(static_cast<ErrorCode>(head.code), head.kind == Kind::error ? text : where + ": " + text);
}

void serve_confined(const ConfinedWork& work) noexcept {
  try {
    close_others();
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGTERM}) {
      ::signal(signal, SIG_DFL);  // the sanitizers have handlers that would end the process in another way
    }
    limit(RLIMIT_CORE, 0);
    const std::uint64_t memory_at_start = is_bounded ? address_space_now() : 0;
    while (serve_one(work, memory_at_start)) {
    }
  } catch (...) {
    ::_exit(1);  // nothing runs without bounds
  }
  ::_exit(0);
}

}  // namespace bitrift
