// measure PROGRAM [ARGUMENT...]: runs it with its output thrown away, and prints its wall seconds and its
// largest resident memory in KiB. A small program of its own, because a child is charged with the memory of
// whoever started it, and Python with NumPy has more than what is measured here.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char** words) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s PROGRAM [ARGUMENT...]\n", words[0]);
    return 2;
  }
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(nothing, 0);
    ::dup2(nothing, 1);
    ::execvp(words[1], words + 1);
    std::fprintf(stderr, "cannot run %s: %s\n", words[1], std::strerror(errno));
    ::_exit(127);
  }
  int status = 0;
  rusage used{};
  if (child < 0 || ::wait4(child, &status, 0, &used) != child) {
    std::perror("measure");
    return 3;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%.6f %ld\n", seconds.count(), used.ru_maxrss);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
