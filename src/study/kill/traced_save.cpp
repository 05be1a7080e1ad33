#include "study/kill/traced_save.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <future>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "campaign/plan/ends.h"
#include "core/error.h"

namespace bitrift::study {
namespace {

using namespace std::chrono_literals;

constexpr auto stop_time = 60s;  // time within which a process must have stopped itself

[[noreturn]] void fail_ptrace(const char* what) {
  const int error = errno;
  if (error == EPERM || error == EACCES || error == ENOSYS) {
    fail(ErrorCode::unsupported,
         "this system does not let a process follow another ({}: {}): allow ptrace (kernel.yama.ptrace_scope "
         "at most 1; in a container SYS_PTRACE); a study can leave `kill` out of `parts`",
         what, errno_text(error));
  }
  fail(ErrorCode::io, "{}: {}", what, errno_text(error));
}

// ptrace(2) takes numbers as pointers.
long trace(int request, pid_t thread, std::uint64_t address, std::uint64_t data) {
  return ::ptrace(static_cast<__ptrace_request>(request), thread,
                  reinterpret_cast<void*>(address),  // NOLINT(performance-no-int-to-ptr)
                  reinterpret_cast<void*>(data));    // NOLINT(performance-no-int-to-ptr)
}

#if defined(__x86_64__)
constexpr std::size_t third_argument = offsetof(user_regs_struct, rdx);
#elif defined(__aarch64__)
constexpr std::size_t third_argument = 2 * sizeof(std::uint64_t);  // x2
#else
#error "which register holds the third argument of a system call?"
#endif

// The state of a thread that has entered a call.
void set_third_argument(pid_t thread, std::uint64_t value) {
  user_regs_struct registers{};
  iovec part{&registers, sizeof registers};
  if (trace(PTRACE_GETREGSET, thread, NT_PRSTATUS, reinterpret_cast<std::uint64_t>(&part)) != 0)
    fail_ptrace("PTRACE_GETREGSET");
  std::memcpy(reinterpret_cast<char*>(&registers) + third_argument, &value, sizeof value);
  if (trace(PTRACE_SETREGSET, thread, NT_PRSTATUS, reinterpret_cast<std::uint64_t>(&part)) != 0)
    fail_ptrace("PTRACE_SETREGSET");
}

void wait_until_stopped(pid_t pid) {
  const auto end = std::chrono::steady_clock::now() + stop_time;
  while (std::chrono::steady_clock::now() < end) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    // "pid (name) state": a name may hold anything.
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) break;
    if (text.compare(name_end, 3, ") T") == 0) return;
    std::this_thread::sleep_for(1ms);
  }
  fail(ErrorCode::io, "process {} that was to be followed has not stopped", pid);
}

// From which call on threads are held, and for how long at most.
struct Hold {
  std::size_t call = 0;
  std::chrono::milliseconds most{};
};

// Only one thread may call members: ptrace(2) and the reports of waitpid(2) belong to the thread that traces.
class Tracer {
 public:
  Tracer(pid_t pid, const std::filesystem::path& folder, std::optional<KillPoint> point,
         std::optional<Hold> hold)
      : pid_(pid), folder_(folder), point_(point), hold_(hold) {}

  TracedSave run() {
    constexpr std::uint64_t options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                                      PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (trace(PTRACE_SEIZE, pid_, 0, options) != 0) fail_ptrace("PTRACE_SEIZE");
    ::kill(pid_, SIGCONT);
    int status = 0;
    while (true) {
      const pid_t thread = ::waitpid(-1, &status, __WALL | __WNOTHREAD | (held_.empty() ? 0 : WNOHANG));
      if (thread < 0 && errno == EINTR) continue;
      if (thread == 0) {
        wait_for_the_first();
        continue;
      }
      if (thread < 0) break;  // all have ended
      if (!WIFSTOPPED(status)) {
        if (thread == pid_) done_.status = ExitStatus::of(status);
        live_.erase(thread);
        continue;
      }
      live_.insert(thread);
      go_on(thread, status);
    }
    return std::move(done_);
  }

 private:
  void go_on(pid_t thread, int status) {
    const int signal = WSTOPSIG(status);
    const bool event = status >> 16 != 0;
    if (signal == (SIGTRAP | 0x80)) at_call(thread);
    if (held_.contains(thread)) return;
    bool deliver = !event && signal != (SIGTRAP | 0x80);
    if (deliver && races_ && thread == pid_ && signal == SIGUSR2) {
      release();
      deliver = false;
    }
    // waitpid(2) reports a thread that was killed in the meantime.
    trace(PTRACE_SYSCALL, thread, 0, deliver ? static_cast<std::uint64_t>(signal) : 0);
  }

  void at_call(pid_t thread) {
    __ptrace_syscall_info info{};
    if (trace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, reinterpret_cast<std::uint64_t>(&info)) <= 0) {
      if (errno != ESRCH) fail_ptrace("PTRACE_GET_SYSCALL_INFO");
      return;
    }
    if (info.op == PTRACE_SYSCALL_INFO_EXIT && halved_.contains(thread)) kill_all();
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY || killed_) return;
    SystemCall call{info.entry.nr};
    for (std::size_t i = 0; i < call.arguments.size(); ++i) call.arguments.at(i) = info.entry.args[i];
    auto altering = altering_call(thread, call, folder_);
    if (!altering) return;
    altering->aside = thread != pid_;
    done_.calls.push_back(std::move(*altering));
    if (hold_ && thread != pid_ && done_.calls.size() > hold_->call) {
      if (held_.empty()) held_since_ = std::chrono::steady_clock::now();
      held_.insert(thread);
    }
    if (!point_ || point_->call != done_.calls.size() - 1) return;
    if (!point_->half) return kill_all();
    set_third_argument(thread, half_of(call.arguments[2]));
    halved_.insert(thread);
  }

  void wait_for_the_first() {
    std::this_thread::sleep_for(1ms);
    if (std::chrono::steady_clock::now() - held_since_ < hold_->most) return;
    done_.waited = true;
    release();
  }

  void release() {
    hold_.reset();
    for (const pid_t thread : std::exchange(held_, {})) trace(PTRACE_SYSCALL, thread, 0, 0);
  }

  // A thread that has entered a call and is killed does not make the call.
  void kill_all() {
    killed_ = true;
    for (const pid_t thread : live_) ::kill(thread, SIGKILL);
  }

  pid_t pid_;
  const std::filesystem::path& folder_;
  std::optional<KillPoint> point_;
  std::optional<Hold> hold_;  // until threads are released
  const bool races_ = hold_.has_value();
  std::chrono::steady_clock::time_point held_since_;
  std::set<pid_t> live_, halved_, held_;
  bool killed_ = false;
  TracedSave done_;
};

TracedSave traced(pid_t pid, const std::filesystem::path& folder, std::optional<KillPoint> point,
                  std::optional<Hold> hold) {
  auto done = std::async(std::launch::async, [&] {
    try {
      wait_until_stopped(pid);
      return Tracer(pid, folder, point, hold).run();
    } catch (...) {
      ::kill(pid, SIGKILL);
      throw;
    }
  });
  while (done.wait_for(50ms) != std::future_status::ready) {
    if (!campaign::InterruptGuard::raised()) continue;
    ::kill(pid, SIGKILL);
    done.wait();
    campaign::InterruptGuard::check();
  }
  return done.get();
}

}  // namespace

std::uint64_t half_of(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t block = 4096;
  return bytes >= 2 * block ? bytes / 2 / block * block : bytes / 2;
}

TracedSave trace_save(pid_t pid, const std::filesystem::path& folder, std::optional<KillPoint> point) {
  return traced(pid, folder, point, std::nullopt);
}

TracedSave trace_race(pid_t pid, const std::filesystem::path& folder, std::size_t call,
                      std::chrono::milliseconds most) {
  return traced(pid, folder, std::nullopt, Hold{call, most});
}

}  // namespace bitrift::study
