#include "train/golden/drift.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace bitrift::ckpt::drift_test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <typename Number>
Drift of(const char* format, const std::vector<Number>& golden, const std::vector<Number>& other) {
  return drift(number_format(format).value(), golden.data(), other.data(), golden.size());
}

TEST(Drift, IsTheNormsTheMeanAndTheMaximumOfWhatChanged) {
  const Drift found = of<float>("float32", {3, -4, 0, 1}, {3, -2, 6, 1});
  EXPECT_EQ(found.altered, 2U);
  EXPECT_EQ(found.nonfinite, 0U);
  EXPECT_DOUBLE_EQ(found.norm, std::sqrt(40.0) / std::sqrt(26.0));
  EXPECT_DOUBLE_EQ(found.max, 0.5);
  EXPECT_DOUBLE_EQ(found.mean, 0.5 / 3);  // the element whose golden value is 0 does not count
}

TEST(Drift, OfEqualTensorsIsNothing) {
  const float nan = std::nanf("");
  const Drift found = of<float>("float32", {0, 1, nan, -3}, {0, 1, nan, -3});
  EXPECT_EQ(found.altered, 0U);
  EXPECT_EQ(found.nonfinite, 1U);
  EXPECT_EQ(found.max, 0);
  EXPECT_EQ(found.mean, 0);
}

TEST(Drift, CountsBitsAndNotValuesAsAltered) {
  const Drift found = of<float>("float32", {0.0F, 1}, {-0.0F, 1});
  EXPECT_EQ(found.altered, 1U);
  EXPECT_EQ(found.norm, 0);
  EXPECT_EQ(found.max, 0);
}

TEST(Drift, OfATensorOfZerosIsInfinite) {
  const Drift found = of<float>("float32", {0, 0}, {0, 1e-30F});
  EXPECT_EQ(found.norm, infinity);
  EXPECT_EQ(found.mean, infinity);
  EXPECT_EQ(found.max, infinity);
  const Drift sign = of<float>("float32", {0, 0}, {0, -0.0F});
  EXPECT_EQ(sign.norm, 0);
  EXPECT_EQ(sign.mean, 0);
  EXPECT_EQ(sign.max, 0);
}

TEST(Drift, ShowsValuesThatAreNotFinite) {
  const Drift infinite = of<float>("float32", {1, 2}, {-std::numeric_limits<float>::infinity(), 2});
  EXPECT_EQ(infinite.nonfinite, 1U);
  EXPECT_EQ(infinite.norm, infinity);
  EXPECT_EQ(infinite.mean, infinity);
  EXPECT_EQ(infinite.max, infinity);
  const Drift nan =
      of<float>("float32", {1, 2, 3}, {std::nanf(""), std::numeric_limits<float>::infinity(), 9});
  EXPECT_EQ(nan.nonfinite, 2U);
  EXPECT_TRUE(std::isnan(nan.norm));
  EXPECT_TRUE(std::isnan(nan.mean));
  EXPECT_TRUE(std::isnan(nan.max));
}

TEST(Drift, OfNumbersWhoseSquaresLeaveTheRangeOfDoublesIsExact) {
  EXPECT_DOUBLE_EQ(of<double>("float64", {3e300, 4e300}, {3e300, 9e300}).norm, 1);
  EXPECT_DOUBLE_EQ(of<double>("float64", {3e-300, 4e-300}, {3e-300, 9e-300}).norm, 1);
  EXPECT_DOUBLE_EQ(of<double>("float64", {3e-300, 4e-300}, {3e-300, 5e300}).norm, infinity);
  EXPECT_DOUBLE_EQ(of<double>("float64", {5e-324, 0}, {1e-323, 0}).norm, 1);
}

TEST(Drift, ReadsEveryFormatOfACheckpoint) {
  EXPECT_DOUBLE_EQ(of<std::int64_t>("int64", {100, -4}, {100, -6}).max, 0.5);
  // 1 and 2, and 1 and 1.5
  EXPECT_DOUBLE_EQ(of<std::uint16_t>("bfloat16", {0x3f80, 0x3f80}, {0x4000, 0x3fc0}).mean, 0.75);
  EXPECT_DOUBLE_EQ(of<std::uint16_t>("float16", {0x3c00, 0x3c00}, {0x4000, 0x3e00}).mean, 0.75);
  EXPECT_EQ(of<std::uint16_t>("float16", {0x3c00}, {0x7c00}).nonfinite, 1U);
}

}  // namespace
}  // namespace bitrift::ckpt::drift_test
