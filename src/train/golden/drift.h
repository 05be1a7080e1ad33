// How far a tensor is from another one.
#pragma once

#include <cstdint>

#include "core/number/number_format.h"

namespace bitrift::ckpt {

/// The numbers of record::TensorDrift for two tensors a1 (reference) and a2 (other).
struct Drift {
  std::uint64_t altered = 0;
  std::uint64_t nonfinite = 0;
  double norm = 0;
  double mean = 0;
  double max = 0;
};

/// Both hold `elements` numbers of this format. Numbers become doubles and all arithmetic is IEEE double,
/// sums in the order of the elements: norm = ||a2 - a1|| / ||a1|| with 2-norms that neither overflow nor
/// underflow by their squares; mean and max of |a2 - a1| / |a1| over elements with a1 != 0. A norm of 0 / 0
/// is 0; where a1 is 0 throughout, mean and max are norm. NaN wins over infinity.
[[nodiscard]] Drift drift(const NumberFormat& format, const void* reference, const void* other,
                          std::uint64_t elements);

}  // namespace bitrift::ckpt
