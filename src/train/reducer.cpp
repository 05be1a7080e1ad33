#include "train/reducer.h"

namespace bitrift::train {

void OrderedReducer::mean(std::span<float> values) {
  if (communicator_.size() == 1) return;
  communicator_.ordered_sum(values.data(), values.size());
  const auto count = static_cast<float>(communicator_.size());
  for (float& value : values) value /= count;
}

}  // namespace bitrift::train
