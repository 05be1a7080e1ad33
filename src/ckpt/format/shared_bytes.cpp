#include "ckpt/format/shared_bytes.h"

#include <algorithm>

namespace bitrift::ckpt {

std::map<std::size_t, std::size_t> owners_that_share(std::vector<OwnedRun> runs) {
  std::map<std::size_t, std::size_t> shared;
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const OwnedRun* furthest = nullptr;  // among all earlier runs, the one that ends last
  for (const OwnedRun& run : runs) {
    if (furthest != nullptr && run.first < furthest->end) {
      shared.emplace(run.owner, furthest->owner);
      shared.emplace(furthest->owner, run.owner);
    }
    if (furthest == nullptr || run.end > furthest->end) furthest = &run;
  }
  return shared;
}

}  // namespace bitrift::ckpt
