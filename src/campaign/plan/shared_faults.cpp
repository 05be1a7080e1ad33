#include "campaign/plan/shared_faults.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"

namespace bitrift::campaign {

void refuse_other_bits(const inject::Population& first, const ckpt::Reader& first_base,
                       const inject::Population& other, const ckpt::Reader& other_base, bool whole) {
  const auto& ours = first.targets();
  const auto& theirs = other.targets();
  const auto same = [whole](const inject::Target& a, const inject::Target& b) {
    return a.path == b.path && a.elements == b.elements && (whole || a.bits.size() == b.bits.size());
  };
  const auto [one, two] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end(), same);
  if (one == ours.end() && two == theirs.end()) return;
  const auto text = [](const inject::Target& target) {
    return fmt::format("{} with {} x {} bits ({})", target.path, target.elements, target.bits.size(),
                       target.format.name());
  };
  fail(ErrorCode::bad_input,
       "a fault must exist in every base, but {} has {} where {} has {}; choose fields that are as wide in "
       "all of them, such as sign and exponent_msb",
       first_base.path().filename().string(), one == ours.end() ? "nothing" : text(*one),
       other_base.path().filename().string(), two == theirs.end() ? "nothing" : text(*two));
}

std::string shared_bit(const inject::Population& first, const inject::Population& second) {
  for (const inject::Target& one : first.targets()) {
    for (const inject::Target& other : second.targets()) {
      if (one.path != other.path) continue;
      std::vector<unsigned> common;
      std::set_intersection(one.bits.begin(), one.bits.end(), other.bits.begin(), other.bits.end(),
                            std::back_inserter(common));
      if (!common.empty()) return fmt::format("bit {} of {}", common.front(), one.path);
    }
  }
  return "";
}

}  // namespace bitrift::campaign
