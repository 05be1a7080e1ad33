#include "mpi/launcher_watch.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace bitrift::mpi {
namespace {

// For ranks that end by themselves and say why.
constexpr std::chrono::seconds grace{2};

void wait_for(int process) {
  pollfd ended{process, POLLIN, 0};
  while (::poll(&ended, 1, -1) < 0 && errno == EINTR) {
  }
  std::this_thread::sleep_for(grace);
  ::raise(SIGKILL);
}

}  // namespace

void end_with_launcher() noexcept {
  // Not prctl(PR_SET_PDEATHSIG): that is about the thread that started this process, which may end before.
  const pid_t parent = ::getppid();
  const auto launcher = static_cast<int>(::syscall(SYS_pidfd_open, parent, 0));
  if (launcher < 0) return;
  if (::getppid() != parent) {
    ::close(launcher);  // somebody else's process: the launcher has ended, and MPI_Init says so
    return;
  }
  // Signals are for the other threads.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(wait_for, launcher).detach();
  } catch (const std::system_error&) {
    ::close(launcher);  // no thread to be had: as it is without pidfd
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace bitrift::mpi
