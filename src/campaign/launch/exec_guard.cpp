#include "campaign/launch/exec_guard.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <optional>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "core/process/subprocess.h"

namespace bitrift::campaign {
namespace {

// Orphans of the command become children of this process: killing children until none is left reaches all of
// them.
void kill_descendants() {
  const std::string list = fmt::format("/proc/self/task/{}/children", ::getpid());
  while (true) {
    std::ifstream file(list);
    if (!file) return;  // a kernel without this list: the group was killed, other processes cannot be found
    pid_t child = 0;
    while (file >> child) ::kill(child, SIGKILL);
    if (::waitpid(-1, nullptr, 0) < 0 && errno == ECHILD) return;
  }
}

}  // namespace

int guard_command(const std::vector<std::string>& words) {
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&watched, signal);
  ::sigprocmask(SIG_BLOCK, &watched, nullptr);
  const pid_t parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (::getppid() != parent) return 3;  // it ended before prctl took effect
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  Subprocess command({words, {}, {}});
  std::optional<ExitStatus> status;
  int signal = SIGCHLD;
  while (signal == SIGCHLD && !(status = command.poll())) {
    // Orphans of the command that end before that are left to kill_descendants().
    if (::sigwait(&watched, &signal) != 0) signal = SIGTERM;
  }
  command.signal_group(SIGKILL);
  kill_descendants();
  if (!status) return 128 + signal;
  if (status->signal == 0) return status->code;
  std::fflush(nullptr);
  ::signal(status->signal, SIG_DFL);
  ::sigprocmask(SIG_UNBLOCK, &watched, nullptr);
  ::raise(status->signal);
  return 128 + status->signal;
}

}  // namespace bitrift::campaign
