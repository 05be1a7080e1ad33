// The context of a forward pass, apart from its input.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "dataset/torch.h"

namespace bitrift::nn {

/// Looks at the outputs of layers in a forward pass, and may replace them.
class OutputTap {
 public:
  virtual ~OutputTap() = default;
  /// y: [rows, output_shape...] of the layer of this name. Returns what the layers after it see.
  [[nodiscard]] virtual torch::Tensor output(const std::string& layer, torch::Tensor y) = 0;
};

/// One pass over some rows. Everything random in it is a function of these values, so that a mask does not
/// depend on how the rows are distributed over ranks and micro-batches.
struct Pass {
  bool training = false;                       ///< batch statistics, dropout, auxiliary heads
  std::uint64_t seed = 0;                      ///< of the run
  std::int64_t step = 0;                       ///< optimizer steps completed before this pass
  std::span<const std::int64_t> samples = {};  ///< index in the data set of each row; needed in training
  OutputTap* tap = nullptr;                    ///< where there is one
};

/// In training: x with each element zeroed with probability p and all other elements multiplied by 1/(1 - p),
/// rounded to x's type. x: [rows, ...]. Element e (row-major within its row) of sample s is kept when half e
/// mod 2 (0: the low one) of random_u64(random_u64(derive_key(seed, "dropout/" + name), step, 0), s, e / 2),
/// a number of 32 bits, is at least p * 2^32. Else, and for p = 0, x itself.
[[nodiscard]] torch::Tensor dropout(const torch::Tensor& x, double p, const std::string& name,
                                    const Pass& pass);

}  // namespace bitrift::nn
