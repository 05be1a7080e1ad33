// Datasets over the same bytes of a file: a change of one would silently change the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace bitrift::ckpt {

/// Bytes [first, end) that an owner stores; owners are numbered by the caller.
struct OwnedRun {
  std::uint64_t first = 0, end = 0;
  std::size_t owner = 0;
};

/// Owners that share bytes, each paired with another one (with itself, where two of its own runs overlap).
[[nodiscard]] std::map<std::size_t, std::size_t> owners_that_share(std::vector<OwnedRun> runs);

}  // namespace bitrift::ckpt
