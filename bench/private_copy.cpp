// A worker's private copy of a checkpoint in several files: what it costs to make, and what each run costs.
//
//   bench_private_copy CHECKPOINT COPY [RUNS]
//
// Prints JSON: seconds to open the base, to make the copy, to alter one bit and to restore it (medians over
// runs with random bits, the first ones in a file by themselves), and the bytes of the files that are not
// links after the first run and at the end.
// bench/private_copy.py calls it.
#include "campaign/worker/private_copy.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "ckpt/set/checkpoint_files.h"
#include "core/error.h"
#include "inject/draw/fault_plan.h"

namespace {

using namespace bitrift;
using Clock = std::chrono::steady_clock;

template <typename Work>
double seconds(Work work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values.at(values.size() / 2);
}

std::uint64_t own_bytes(const std::filesystem::path& copy) {
  std::uint64_t sum = 0;
  for (const auto& file : ckpt::files_of(copy)) {
    if (!std::filesystem::is_symlink(file)) sum += std::filesystem::file_size(file);
  }
  return sum;
}

void run(const std::filesystem::path& checkpoint, const std::filesystem::path& place, std::uint64_t runs) {
  std::optional<ckpt::Reader> base;
  std::optional<campaign::PrivateCopy> copy;
  const double opened = seconds([&] { base.emplace(checkpoint); });
  const double made = seconds([&] { copy.emplace(*base, place); });
  std::vector<double> first, later;
  std::uint64_t own = 0, own_at_first = 0;
  for (std::uint64_t i = 0; i < runs; ++i) {
    record::FaultModel model;
    model.count = 1;
    model.seed = i;
    record::TrialSpec trial;
    trial.faults.bits() = inject::draw(*base, model);
    const double altered = seconds([&] { copy->alter(trial); });
    const std::uint64_t before = std::exchange(own, own_bytes(copy->path()));
    if (i == 0) own_at_first = own;
    const double restored = seconds([&] { copy->restore(); });
    (own > before ? first : later).push_back(altered + restored);
  }
  std::printf(
      "{\"open\": %.6f, \"make\": %.6f, \"first\": %.6f, \"later\": %.6f, \"own_bytes_at_first\": %llu, "
      "\"own_bytes\": %llu, \"bytes\": %llu}\n",
      opened, made, median(first), median(later), static_cast<unsigned long long>(own_at_first),
      static_cast<unsigned long long>(own), static_cast<unsigned long long>(ckpt::bytes_of(checkpoint)));
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    std::fputs("usage: bench_private_copy CHECKPOINT COPY [RUNS]\n", stderr);
    return 2;
  }
  try {
    run(words[1], words[2], count > 3 ? std::stoull(words[3]) : 20);
  } catch (const bitrift::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
  return 0;
}
