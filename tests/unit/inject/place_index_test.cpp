#include "inject/draw/place_index.h"

#include <unordered_map>

#include <gtest/gtest.h>

#include "core/philox.h"

namespace bitrift::inject::place_index_test {
namespace {

/// Inserts the elements in this order and expects each, and none beside them.
void expect_found(const std::vector<std::uint64_t>& elements, const std::vector<std::uint64_t>& others) {
  PlaceIndex index;
  std::vector<Placed> changes;
  for (const std::uint64_t element : elements) {
    index.reserve(changes.size() + 1);
    ASSERT_EQ(index.find(element, changes), nullptr) << element;
    index.insert(element, changes.size());
    changes.push_back({{0, element, 1, 0, 1}, element});
  }
  for (std::size_t i = 0; i < elements.size(); ++i)
    ASSERT_EQ(index.find(elements[i], changes), &changes[i]) << elements[i];
  for (const std::uint64_t other : others) ASSERT_EQ(index.find(other, changes), nullptr) << other;
}

TEST(PlaceIndex, FindsWhatWasInsertedHoweverItGrows) {
  std::unordered_map<std::uint64_t, bool> seen;
  std::vector<std::uint64_t> elements, others;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::uint64_t element = random_u64(5, i, 0) >> (i % 64);  // small ones and large ones
    if (seen.emplace(element, true).second) (i % 2 == 0 ? elements : others).push_back(element);
  }
  EXPECT_GT(elements.size(), 8'000U);
  expect_found(elements, others);
}

TEST(PlaceIndex, FindsNeighboursAndTheEnds) {
  std::vector<std::uint64_t> elements = {0, ~std::uint64_t{0}, std::uint64_t{1} << 63};
  for (std::uint64_t i = 1; i < 3000; ++i) elements.push_back(i);
  expect_found(elements, {3000, 3001, (std::uint64_t{1} << 63) + 1, ~std::uint64_t{1}});
}

TEST(PlaceIndex, FindsElementsThatShareASlot) {
  // Multiples of 2^60 differ in the top bits alone, which the product pushes out of all but the highest
  // slots.
  std::vector<std::uint64_t> elements, others;
  for (std::uint64_t i = 0; i < 16; ++i) {
    elements.push_back(i << 60);
    others.push_back((i << 60) + 1);
  }
  expect_found(elements, others);
}

}  // namespace
}  // namespace bitrift::inject::place_index_test
