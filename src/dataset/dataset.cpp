#include "dataset/dataset.h"

#include "core/error.h"

namespace bitrift::nn {

Dataset::~Dataset() = default;

void Dataset::check_rows(std::span<const std::int64_t> rows) const {
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= train_size()) {
      fail(ErrorCode::bad_input, "there is no training sample {}: they are 0 to {}", row, train_size() - 1);
    }
  }
}

void Dataset::check_range(std::int64_t first, std::int64_t last) const {
  if (first < 0 || first > last || last > test_size()) {
    fail(ErrorCode::bad_input, "there are no test samples {} to {}: they are 0 to {}", first, last - 1,
         test_size() - 1);
  }
}

}  // namespace bitrift::nn
