#include "core/confined.h"

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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "core/subprocess.h"

namespace bitrift {
namespace {

using Clock = std::chrono::steady_clock;

// Before every answer: how it went, and how long it is.
struct Head {
  std::uint8_t is_error = 0;
  std::uint8_t code = 0;
  std::uint64_t bytes = 0;
};

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

/// False at the end, or when the deadline passed.
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

void limit(int what, std::uint64_t most) noexcept {
  rlimit now{};
  ::getrlimit(static_cast<__rlimit_resource_t>(what), &now);
  now.rlim_cur = std::min<rlim_t>(most, now.rlim_max);
  ::setrlimit(static_cast<__rlimit_resource_t>(what), &now);
}

/// Keeps `first` and `second` only, as 3 and 4; the standard streams lead nowhere.
void keep_only(int& first, int& second) noexcept {
  const int nowhere = ::open("/dev/null", O_RDWR);
  const int one = ::fcntl(first, F_DUPFD, 100);
  const int two = ::fcntl(second, F_DUPFD, 100);
  for (int fd = 0; fd < 3; ++fd) ::dup2(nowhere, fd);
  ::dup2(one, 3);
  ::dup2(two, 4);
  if (::syscall(SYS_close_range, 5U, ~0U, 0U) != 0) {
    const long most = std::min(::sysconf(_SC_OPEN_MAX), 65536L);
    for (int fd = 5; fd < most; ++fd) ::close(fd);
  }
  first = 3;
  second = 4;
}

}  // namespace

Confined::Confined(Work work, std::string where, ConfinedLimits limits)
    : work_(std::move(work)), where_(std::move(where)), limits_(limits) {}

Confined::~Confined() { stop(); }

void Confined::start() {
  std::array<int, 2> down{};
  std::array<int, 2> up{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, down.data()) != 0) {
    fail(ErrorCode::io, "{}: no channel to a child process: {}", where_, errno_text(errno));
  }
  FileDescriptor requests(down[0]);
  const FileDescriptor child_requests(down[1]);
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, up.data()) != 0) {
    fail(ErrorCode::io, "{}: no channel to a child process: {}", where_, errno_text(errno));
  }
  FileDescriptor answers(up[0]);
  const FileDescriptor child_answers(up[1]);
  const pid_t pid = ::fork();
  if (pid < 0) fail(ErrorCode::io, "{}: no child process can be started: {}", where_, errno_text(errno));
  if (pid == 0) serve(child_requests.get(), child_answers.get());
  pid_ = pid;
  requests_ = std::move(requests);
  answers_ = std::move(answers);
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

void Confined::serve(int requests, int answers) noexcept {
  keep_only(requests, answers);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGTERM}) {
    ::signal(signal, SIG_DFL);  // Python and the sanitizers have handlers that would talk
  }
  limit(RLIMIT_CORE, 0);
  // AddressSanitizer reserves terabytes, of which it uses little.
#if defined(__SANITIZE_ADDRESS__)
  constexpr bool is_bounded = false;
#else
  constexpr bool is_bounded = true;
#endif
  try {
    if (is_bounded) limit(RLIMIT_AS, address_space_now() + limits_.memory_bytes);
  } catch (const std::exception&) {
    ::_exit(1);  // without bounds nothing is done
  }
  for (;;) {
    std::uint64_t size = 0;
    if (!read_all(requests, &size, sizeof size, nullptr)) ::_exit(0);
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto spent = static_cast<std::uint64_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
    limit(RLIMIT_CPU, spent + limits_.seconds + 1);
    Head head;
    std::vector<std::uint8_t> answer;
    try {
      std::vector<std::uint8_t> request(size);
      if (!read_all(requests, request.data(), request.size(), nullptr)) ::_exit(0);
      answer = work_(request);
    } catch (const std::exception& error) {
      const auto* ours = dynamic_cast<const Error*>(&error);
      head.is_error = 1;
      head.code = static_cast<std::uint8_t>(ours != nullptr ? ours->code() : ErrorCode::bad_file);
      const std::string text = ours != nullptr ? std::string(error.what()) : where_ + ": " + error.what();
      answer.assign(text.begin(), text.end());
    } catch (...) {
      ::_exit(1);
    }
    head.bytes = answer.size();
    if (!write_all(answers, &head, sizeof head) || !write_all(answers, answer.data(), answer.size()))
      ::_exit(0);
  }
}

/// Says how the child ended, or ends it.
void Confined::fail_dead() {
  int status = 0;
  pid_t done = ::waitpid(pid_, &status, WNOHANG);
  for (int i = 0; done == 0 && i < 100; ++i) {  // its channel closes a moment before it can be reaped
    ::usleep(1000);
    done = ::waitpid(pid_, &status, WNOHANG);
  }
  if (done == pid_) pid_ = -1;
  stop();
  if (done == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)) {
    fail(ErrorCode::bad_file, "{}: took more than {} seconds and was given up", where_, limits_.seconds);
  }
  const ExitStatus ended{WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                         WIFSIGNALED(status) ? WTERMSIG(status) : 0};
  fail(ErrorCode::bad_file, "{}: the process that worked on it ended with {}; the data are damaged", where_,
       ended.text());
}

std::vector<std::uint8_t> Confined::call(std::span<const std::uint8_t> request) {
  if (pid_ < 0) start();
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(3 * std::uint64_t{limits_.seconds});
  const std::uint64_t size = request.size();
  Head head;
  if (!write_all(requests_.get(), &size, sizeof size) || !write_all(requests_.get(), request.data(), size) ||
      !read_all(answers_.get(), &head, sizeof head, &deadline)) {
    fail_dead();
  }
  if (head.bytes > std::max<std::uint64_t>(limits_.answer_bytes, 65536)) {
    stop();
    fail(ErrorCode::bad_file, "{}: came to {} bytes, more than {}", where_, head.bytes, limits_.answer_bytes);
  }
  std::vector<std::uint8_t> answer(head.bytes);
  if (!read_all(answers_.get(), answer.data(), answer.size(), &deadline)) fail_dead();
  if (head.is_error != 0) throw Error(static_cast<ErrorCode>(head.code), {answer.begin(), answer.end()});
  return answer;
}

}  // namespace bitrift
