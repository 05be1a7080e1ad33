#include "train/step/data_order.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

namespace bitrift::train::data_order_test {
namespace {

TEST(EpochOrder, IsAPermutation) {
  std::vector<std::int64_t> order = epoch_order(7, 3, 1437);
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> expected(1437);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST(EpochOrder, IsAFunctionOfSeedAndEpoch) {
  EXPECT_EQ(epoch_order(7, 3, 500), epoch_order(7, 3, 500));
  EXPECT_NE(epoch_order(7, 3, 500), epoch_order(7, 4, 500));
  EXPECT_NE(epoch_order(7, 3, 500), epoch_order(8, 3, 500));
  EXPECT_NE(epoch_order(7, std::int64_t{1} << 40, 500), epoch_order(7, 0, 500));
}

// Values of the Python reference in docs/data-order.md, which tests/e2e/witness/test_witness.py runs on whole
// epochs.
TEST(EpochOrder, HasTheDocumentedValues) {
  EXPECT_EQ(epoch_order(1, 0, 8), (std::vector<std::int64_t>{3, 4, 7, 6, 1, 2, 0, 5}));
  EXPECT_EQ(epoch_order(1, 1, 8), (std::vector<std::int64_t>{5, 3, 0, 7, 4, 6, 2, 1}));
}

}  // namespace
}  // namespace bitrift::train::data_order_test
