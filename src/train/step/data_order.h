// Which samples a step sees: a pure function of (seed, epoch), so that others can compute it
// (docs/data-order.md).
#pragma once

#include <cstdint>
#include <vector>

namespace bitrift::train {

/// All sample indices 0 .. samples - 1 in the order of an epoch (0-based): sorted by
/// random_u64(derive_key(seed, "order"), index, epoch), equal keys by index.
[[nodiscard]] std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch,
                                                    std::int64_t samples);

}  // namespace bitrift::train
