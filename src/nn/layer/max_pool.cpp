#include "nn/layer/max_pool.h"

#include <bit>

#include <ATen/Parallel.h>

namespace bitrift::nn {
namespace {

// The number of output rows that are worth a thread.
constexpr std::int64_t rows_a_thread = 1024;

// All ones if it holds, else zero: choices are made with masks, because the position of the largest element
// cannot be predicted, and a mispredicted jump costs more than the whole window.
std::int32_t mask(bool holds) { return -static_cast<std::int32_t>(holds); }

std::int32_t bits(float value) { return std::bit_cast<std::int32_t>(value); }

// x: two rows of 2 * width elements; the number of the largest goes to picks: 0 and 1 in the upper row, 2 and
// 3 in the lower.
void pool_row(const float* x, std::int64_t width, float* y, std::int32_t* picks) {
  const float* below = x + 2 * width;
  for (std::int64_t w = 0; w < width; ++w) {
    std::int32_t most = bits(x[2 * w]), pick = 0;
    const auto see = [&](float value, std::int32_t number) {
      const std::int32_t more = mask(value > std::bit_cast<float>(most)) | mask(value != value);
      most = (bits(value) & more) | (most & ~more);
      pick = (number & more) | (pick & ~more);
    };
    see(x[2 * w + 1], 1);
    see(below[2 * w], 2);
    see(below[2 * w + 1], 3);
    y[w] = std::bit_cast<float>(most);
    picks[w] = pick;
  }
}

// PyTorch adds every gradient to zero, which turns -0 into 0.
void spread_row(const float* gradient, const std::int32_t* picks, std::int64_t width, float* x) {
  float* below = x + 2 * width;
  for (std::int64_t w = 0; w < width; ++w) {
    const std::int32_t value = bits(0.0F + gradient[w]);
    x[2 * w] = std::bit_cast<float>(value & mask(picks[w] == 0));
    x[2 * w + 1] = std::bit_cast<float>(value & mask(picks[w] == 1));
    below[2 * w] = std::bit_cast<float>(value & mask(picks[w] == 2));
    below[2 * w + 1] = std::bit_cast<float>(value & mask(picks[w] == 3));
  }
}

class Pool : public torch::autograd::Function<Pool> {
 public:
  // x: float32, contiguous, with an even height and width.
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x) {
    const std::int64_t width = x.size(3) / 2;
    const torch::Tensor y = torch::empty({x.size(0), x.size(1), x.size(2) / 2, width}, x.options());
    const torch::Tensor picks = torch::empty(y.sizes(), x.options().dtype(torch::kInt32));
    const float* from = x.const_data_ptr<float>();
    auto* to = y.mutable_data_ptr<float>();
    auto* numbers = picks.mutable_data_ptr<std::int32_t>();
    at::parallel_for(0, y.numel() / width, rows_a_thread, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row)
        pool_row(from + row * 4 * width, width, to + row * width, numbers + row * width);
    });
    context->save_for_backward({picks});
    return y;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& gradients) {
    const torch::Tensor picks = context->get_saved_variables()[0];
    const torch::Tensor gradient = gradients[0].contiguous();
    const std::int64_t width = picks.size(3);
    const torch::Tensor x =
        torch::empty({picks.size(0), picks.size(1), 2 * picks.size(2), 2 * width}, gradient.options());
    const float* from = gradient.const_data_ptr<float>();
    const auto* numbers = picks.const_data_ptr<std::int32_t>();
    auto* to = x.mutable_data_ptr<float>();
    at::parallel_for(0, picks.numel() / width, rows_a_thread, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row)
        spread_row(from + row * width, numbers + row * width, width, to + row * 4 * width);
    });
    return {x};
  }
};

}  // namespace

torch::Tensor max_pool_2x2(const torch::Tensor& x) {
  const bool fits = x.is_cpu() && x.scalar_type() == torch::kFloat32 && x.dim() == 4 && x.is_contiguous() &&
                    x.numel() > 0 && x.size(2) % 2 == 0 && x.size(3) % 2 == 0;
  return fits ? Pool::apply(x) : torch::max_pool2d(x, 2);
}

}  // namespace bitrift::nn
