#include "core/process/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <sched.h>

namespace bitrift {
namespace {

std::size_t usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::size_t>(std::clamp(CPU_COUNT(&set), 1, 16));
}

}  // namespace

void parallel_for(std::size_t count, const std::function<void(std::size_t)>& piece,
                  std::uint64_t bytes_each) {
  constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20U;
  const std::uint64_t fitting =
      std::max<std::uint64_t>(most_bytes / std::max<std::uint64_t>(bytes_each, 1), 1);
  const auto threads = std::min<std::uint64_t>({usable_threads(), count, fitting});
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex lock;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        piece(i);
      } catch (...) {
        next = count;
        const std::lock_guard guard(lock);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  std::vector<std::thread> others;
  try {
    for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
  } catch (const std::system_error&) {
    // The system limits threads: the existing ones do all the work.
  }
  work();
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace bitrift
