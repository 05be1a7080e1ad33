#include "filters/filter_request.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/scratch.h"

namespace bitrift::h5::filter_request_test {
namespace {

using ::testing::ElementsAre;
using Bytes = std::vector<std::uint8_t>;

const FilterRequest request{FilterTask::encode,
                            "f.h5: d",
                            {{1, 2, 3}, {4, 5}, 8, {{32015, true, {7}}, {1, false, {}}}},
                            {{9, 8, 7}, 2}};

TEST(FilterRequest, ComesBackWhole) {
  const FilterRequest again = FilterRequest::unpacked(request.packed());
  EXPECT_EQ(again.task, FilterTask::encode);
  EXPECT_EQ(again.where, "f.h5: d");
  EXPECT_THAT(again.spec.datatype, ElementsAre(1, 2, 3));
  EXPECT_THAT(again.spec.chunk, ElementsAre(4, 5));
  EXPECT_EQ(again.spec.element_bytes, 8U);
  ASSERT_EQ(again.spec.filters.size(), 2U);
  EXPECT_EQ(again.spec.filters[0].id, 32015U);
  EXPECT_TRUE(again.spec.filters[0].optional);
  EXPECT_THAT(again.spec.filters[0].values, ElementsAre(7));
  EXPECT_TRUE(again.spec.filters[1].values.empty());
  EXPECT_THAT(again.chunk.bytes, ElementsAre(9, 8, 7));
  EXPECT_EQ(again.chunk.mask, 2U);
}

TEST(FilterRequest, APartOfItOrMoreThanItIsRefused) {
  const Bytes whole = request.packed();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_ERROR((void)FilterRequest::unpacked(std::span(whole).first(bytes)), internal,
                 "a request to bitrift-hdf5 ends too early");
  }
  Bytes longer = whole;
  longer.push_back(0);
  EXPECT_ERROR((void)FilterRequest::unpacked(longer), internal, "a request to bitrift-hdf5 is damaged");
}

TEST(FilterRequest, AListLongerThanAnyMemoryIsRefused) {
  EXPECT_ERROR((void)unpacked_chunk(Bytes(16, 0xff)), internal, "ends too early");
}

}  // namespace
}  // namespace bitrift::h5::filter_request_test
