#include "train/guard/output_ranges.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace bitrift::train {

torch::Tensor OutputRanges::output(const std::string& layer, torch::Tensor y) {
  if (y.numel() == 0) return y;
  const auto [least, most] = torch::aminmax(y.detach());
  const double largest = torch::maximum(least.abs(), most.abs()).item<double>();
  Range& range = ranges[layer];
  const double limit = factor_ * range.before;
  if (limit == 0 || largest <= limit) {
    if (std::isfinite(largest)) range.now = std::max(range.now, largest);
    return y;
  }
  range.exceeded = true;
  found_.push_back({layer, largest, limit});
  return clip_ ? y.nan_to_num(0, limit, -limit).clamp(-limit, limit) : y;
}

std::vector<OutputRanges::Finding> OutputRanges::end_step() {
  for (auto& [layer, range] : ranges) {
    if (!range.exceeded) range.before = std::max(range.before, range.now);
    range = {.before = range.before};
  }
  return std::exchange(found_, {});
}

}  // namespace bitrift::train
