#include "train/parallel/executor.h"

#include <algorithm>

namespace bitrift::train {

std::int64_t evaluation_batch(const std::vector<std::int64_t>& input_shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : input_shape) elements *= extent;
  return std::clamp<std::int64_t>((std::int64_t{1} << 22) / elements, 1, 256);
}

std::int64_t evaluation_batches(const nn::Dataset& data) {
  const std::int64_t rows = evaluation_batch(data.input_shape());
  return (data.test_size() + rows - 1) / rows;
}

torch::Tensor stage_input(const torch::Tensor& inputs, const nn::Placement& placement) {
  const torch::Tensor here = inputs.to(placement.device);
  return inputs.is_floating_point() ? here.to(placement.dtype) : here;
}

}  // namespace bitrift::train
