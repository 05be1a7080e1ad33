// What the programs share in which ranks die. mpirun --with-ft ulfm exits 0 whatever happened: the verdict is
// a line on stdout, which the tests look for (CMakeLists.txt).
#pragma once

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mpi/environment.h"
#include "mpi/survivors.h"

namespace bitrift::mpi {

using Clock = std::chrono::steady_clock;

inline double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Ends this process by SIGKILL after a while, whatever it is doing then.
inline void die_in(std::chrono::microseconds delay) {
  std::thread([delay] {
    std::this_thread::sleep_for(delay);
    ::kill(::getpid(), SIGKILL);
  }).detach();
}

/// A rank that hangs says so and ends: the test then lacks its verdict.
inline void limit_seconds(unsigned seconds) {
  std::signal(SIGALRM, [](int) {
    const char text[] = "a rank hangs\n";
    [[maybe_unused]] const auto written = ::write(2, text, sizeof text - 1);
    ::kill(::getpid(), SIGKILL);
  });
  ::alarm(seconds);
}

/// Says once for all survivors whether each of them is content, and leaves.
[[noreturn]] inline void give_verdict(Environment& environment, const Communicator& survivors, bool mine) {
  const bool right = all_agree(survivors, mine);
  if (survivors.rank() == 0)
    fmt::print("verdict: {}, {} ranks\n", right ? "right" : "wrong", survivors.size());
  environment.leave(right ? 0 : 1, survivors);
}

}  // namespace bitrift::mpi
