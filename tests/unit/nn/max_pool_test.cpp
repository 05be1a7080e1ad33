#include "nn/layer/max_pool.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>

#include "tests_support.h"

namespace bitrift::nn::max_pool_test {
namespace {

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.contiguous().const_data_ptr(), b.contiguous().const_data_ptr(), a.nbytes()) == 0;
}

// Values and gradient under a weighted sum with our pooling and with PyTorch's: compared bit by bit.
void expect_as_pytorch(const torch::Tensor& x, const torch::Tensor& weights) {
  const torch::Tensor ours = x.clone().requires_grad_(), theirs = x.clone().requires_grad_();
  const torch::Tensor y = max_pool_2x2(ours), expected = torch::max_pool2d(theirs, 2);
  EXPECT_TRUE(same_bits(y.detach(), expected.detach()));
  y.backward(weights);
  expected.backward(weights);
  EXPECT_TRUE(same_bits(ours.grad(), theirs.grad()));
}

TEST(MaxPool, HasTheBitsOfPyTorchForEveryShape) {
  torch::manual_seed(1);
  for (const int height : {2, 4, 6, 7}) {
    for (const int width : {2, 3, 8, 34}) {
      const torch::Tensor x = torch::randn({3, 5, height, width});
      expect_as_pytorch(x, torch::randn({3, 5, height / 2, width / 2}));
    }
  }
}

TEST(MaxPool, TakesTiesNaNsInfinitiesAndZerosAsPyTorchDoes) {
  const float inf = std::numeric_limits<float>::infinity();
  std::uint32_t odd_bits = 0x7fc12345;
  float odd_nan = 0;
  std::memcpy(&odd_nan, &odd_bits, sizeof odd_nan);
  const std::vector<float> values = {0.0F, -0.0F, 1.0F, 1.0F, inf, -inf, std::nanf(""), odd_nan};
  // Every choice of four of them as a window.
  const auto count = static_cast<std::int64_t>(values.size());
  const std::int64_t windows = count * count * count * count;
  const torch::Tensor x = torch::empty({windows, 1, 2, 2});
  auto* to = x.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < windows; ++i) {
    for (std::int64_t rest = i, corner = 0; corner < 4; ++corner, rest /= count)
      *to++ = values[static_cast<std::size_t>(rest % count)];
  }
  expect_as_pytorch(x, torch::ones({windows, 1, 1, 1}));
  expect_as_pytorch(x, torch::full({windows, 1, 1, 1}, -0.0F));
  expect_as_pytorch(x, torch::full({windows, 1, 1, 1}, odd_nan));
}

TEST(MaxPool, LeavesOtherTypesAndLayoutsToPyTorch) {
  torch::manual_seed(2);
  for (const auto type : {torch::kFloat64, torch::kBFloat16}) {
    expect_as_pytorch(torch::randn({2, 3, 4, 4}).to(type), torch::randn({2, 3, 2, 2}).to(type));
  }
  const torch::Tensor last = torch::randn({2, 3, 4, 4}).contiguous(torch::MemoryFormat::ChannelsLast);
  expect_as_pytorch(last, torch::randn({2, 3, 2, 2}));
  expect_as_pytorch(torch::randn({2, 3, 8, 4}).slice(2, 0, 4), torch::randn({2, 3, 2, 2}));
}

TEST(MaxPool, TakesGradientsThatAreNotContiguous) {
  torch::manual_seed(3);
  expect_as_pytorch(torch::randn({2, 3, 4, 6}), torch::randn({2, 3, 3, 2}).transpose(2, 3));
}

TEST(MaxPool, HasTheSameBitsOnSeveralThreads) {
  torch::manual_seed(4);
  const torch::Tensor x = torch::randn({64, 16, 8, 8}), weights = torch::randn({64, 16, 4, 4});
  const int before = torch::get_num_threads();
  torch::set_num_threads(2);
  expect_as_pytorch(x, weights);
  torch::set_num_threads(before);
}

}  // namespace
}  // namespace bitrift::nn::max_pool_test
