#include "nn/layer/pass.h"

#include <cmath>

#include <gmock/gmock.h>

#include "tests_support.h"

namespace bitrift::nn::pass_test {
namespace {

torch::Tensor masked(const torch::Tensor& x, double p, const std::vector<std::int64_t>& samples,
                     std::int64_t step = 3, const std::string& name = "some.dropout") {
  return dropout(x, p, name, {.training = true, .seed = 99, .step = step, .samples = samples});
}

TEST(Dropout, MasksAreThoseOfTheFormulaInPython) {
  // By dropout_kept() of tests/e2e/witness/philox.py.
  const torch::Tensor expected = torch::tensor({{0, 0, 1, 0, 1}, {0, 1, 1, 0, 0}, {1, 1, 0, 1, 1}});
  const torch::Tensor y = masked(torch::ones({3, 5}, torch::kFloat64), 0.4, {0, 7, 5'000'000'000});
  EXPECT_TRUE(y.equal(expected.to(torch::kFloat64) * (1 / 0.6)));
  const torch::Tensor next = masked(torch::ones({1, 5}), 0.4, {0}, 4);
  EXPECT_TRUE(next.ne(0).equal(torch::tensor({{false, true, true, true, true}})));
}

TEST(Dropout, RowsAreCountedThroughAllTheirDimensions) {
  const std::vector<std::int64_t> samples = {1, 2};
  const torch::Tensor flat = masked(torch::ones({2, 24}), 0.5, samples);
  EXPECT_TRUE(masked(torch::ones({2, 2, 3, 4}), 0.5, samples).equal(flat.view({2, 2, 3, 4})));
}

TEST(Dropout, KeepsTheShareThatItSays) {
  const double p = 0.3;
  const auto count = 200'000.0;
  const double kept = masked(torch::ones({2, 100'000}), p, {1, 2}).ne(0).sum().item<double>();
  EXPECT_NEAR(kept, count * (1 - p), 5 * std::sqrt(count * p * (1 - p)));
}

TEST(Dropout, EveryLayerHasMasksOfItsOwn) {
  const torch::Tensor x = torch::ones({1, 64});
  EXPECT_FALSE(masked(x, 0.5, {1}).equal(masked(x, 0.5, {1}, 3, "other.dropout")));
}

TEST(Dropout, ScalesInTheTypeOfItsInput) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
    const torch::Tensor y = masked(torch::ones({1, 100}, dtype), 0.1, {1});
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_TRUE(y.max().equal(torch::full({}, 1 / 0.9, dtype)));
  }
}

TEST(Dropout, GradientsPassWhereElementsStay) {
  const torch::Tensor x = torch::rand({2, 9}, torch::requires_grad());
  const torch::Tensor y = masked(x, 0.5, {4, 5});
  y.sum().backward();
  EXPECT_TRUE(x.grad().equal(masked(torch::ones({2, 9}), 0.5, {4, 5})));
}

TEST(Dropout, LeavesEvaluationAndProbabilityZeroAlone) {
  const torch::Tensor x = torch::ones({2, 8});
  EXPECT_TRUE(dropout(x, 0.9, "d", {}).is_same(x));
  EXPECT_TRUE(masked(x, 0, {}).is_same(x));
}

TEST(Dropout, RowsWithoutSampleNumbersAreAFaultOfOurs) {
  EXPECT_THAT(tests::error_of([] {
                (void)masked(torch::ones({3, 2}), 0.5, {1, 2});
              }),
              testing::HasSubstr("3 rows, but 2 sample numbers"));
}

}  // namespace
}  // namespace bitrift::nn::pass_test
