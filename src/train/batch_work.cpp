#include "train/batch_work.h"

namespace bitrift::train {
namespace {

torch::Tensor index_of(std::span<const std::int64_t> rows) {
  // from_blob wants a mutable pointer; index_select only reads.
  return torch::from_blob(const_cast<std::int64_t*>(rows.data()), {static_cast<std::int64_t>(rows.size())},
                          torch::kInt64);
}

}  // namespace

torch::Tensor take_images(const nn::Split& split, std::span<const std::int64_t> rows) {
  return nn::to_input(split.images.index_select(0, index_of(rows)));
}

torch::Tensor take_labels(const nn::Split& split, std::span<const std::int64_t> rows) {
  return split.labels.index_select(0, index_of(rows));
}

std::span<const std::int64_t> part(std::span<const std::int64_t> rows, int m, int count) {
  const std::size_t size = rows.size() / static_cast<std::size_t>(count);
  return rows.subspan(size * static_cast<std::size_t>(m), size);
}

std::int64_t count_correct(const torch::Tensor& logits, const torch::Tensor& labels) {
  const torch::Tensor rows = logits.detach().contiguous();
  const std::int64_t classes = rows.size(1);
  const auto* values = rows.const_data_ptr<float>();
  const auto* wanted = labels.const_data_ptr<std::int64_t>();
  std::int64_t correct = 0;
  for (std::int64_t row = 0; row < rows.size(0); ++row, values += classes) {
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < classes; ++c) {
      if (values[c] > values[best]) best = c;
    }
    correct += best == wanted[row] ? 1 : 0;
  }
  return correct;
}

torch::Tensor share_of(const torch::Tensor& loss, int count) { return count == 1 ? loss : loss / count; }

}  // namespace bitrift::train
