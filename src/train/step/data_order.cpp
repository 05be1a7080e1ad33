#include "train/step/data_order.h"

#include <algorithm>
#include <utility>

#include "core/philox.h"

namespace bitrift::train {

std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch, std::int64_t samples) {
  const std::uint64_t key = derive_key(seed, "order");
  std::vector<std::pair<std::uint64_t, std::int64_t>> keyed;
  keyed.reserve(static_cast<std::size_t>(samples));
  for (std::int64_t i = 0; i < samples; ++i) {
    keyed.emplace_back(random_u64(key, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(epoch)), i);
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<std::int64_t> order;
  order.reserve(keyed.size());
  for (const auto& [random, index] : keyed) order.push_back(index);
  return order;
}

}  // namespace bitrift::train
