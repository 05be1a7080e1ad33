// Patches random deflate streams, and checks with zlib that each holds what it should:
// bench_deflate_patch COUNT [SEED]. Case i is the same for the same seed, whatever the number of threads.
// Exit code 1 at the first fault.
#include <array>
#include <atomic>
#include <chrono>
#include <iostream>

#include "core/process/parallel_for.h"
#include "deflate_cases.h"

int main(int count, char** words) {
  using namespace bitrift;
  if (count < 2 || count > 3) {
    std::cerr << "usage: bench_deflate_patch COUNT [SEED]\n";
    return 2;
  }
  constexpr std::uint64_t in_batch = 1000;
  const std::uint64_t cases = std::strtoull(words[1], nullptr, 10);
  const std::uint64_t seed = count > 2 ? std::strtoull(words[2], nullptr, 10) : 1;
  std::array<std::atomic<std::uint64_t>, 4> outcomes{};
  std::atomic<std::uint64_t> faults{0}, bytes{0};
  const auto start = std::chrono::steady_clock::now();
  parallel_for((cases + in_batch - 1) / in_batch, [&](std::size_t batch) {
    testing::DeflateCases source(seed * 1'000'003 + batch);
    const std::uint64_t some = std::min(in_batch, cases - batch * in_batch);
    for (std::uint64_t i = 0; i < some; ++i) {
      const testing::DeflateCase one = source.next();
      bytes += one.before.size();
      if (const auto outcome = testing::outcome_of(one)) {
        ++outcomes[static_cast<std::size_t>(*outcome)];
      } else if (faults++ == 0) {
        std::cerr << "FAULT: case " << i << " of batch " << batch << ", seed " << seed << std::endl;
      }
    }
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::cout << cases << " cases (seed " << seed << "), " << bytes << " bytes, " << seconds
            << " s: " << outcomes[0] << " patched to the same size, " << outcomes[1] << " smaller, "
            << outcomes[2] << " larger, " << outcomes[3] << " declined, " << faults << " faults\n";
  return faults == 0 ? 0 : 1;
}
