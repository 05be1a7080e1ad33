#include "h5map/structures.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "unit/scratch.h"

namespace bitrift::h5map::structures_test {
namespace {

std::string text(Structures structures, std::uint64_t bytes) {
  const StructureMap map = std::move(structures).map(bytes);
  std::string lines;
  for (const Extent& extent : map.extents()) {
    lines += fmt::format("{}-{} {}{};", extent.first, extent.end, extent.kind, extent.owner);
  }
  return lines;
}

TEST(Structures, WhatNobodyNotedIsUnused) {
  Structures structures;
  EXPECT_EQ(text(structures, 10), "0-10 unused;");
  EXPECT_EQ(text(structures, 0), "");
  structures.add(2, 3, "heap");
  EXPECT_EQ(text(structures, 10), "0-2 unused;2-5 heap;5-10 unused;");
}

TEST(Structures, ValuesWinOverWhatHoldsThemAndTheFirstOverTheLater) {
  Structures structures;
  structures.set_owner("/a");
  structures.add(0, 10, "object header");
  structures.add(4, 2, "attribute value");
  structures.set_owner("/b");
  structures.add(8, 6, "object header");
  EXPECT_EQ(text(structures, 14),
            "0-4 object header/a;4-6 attribute value/a;6-10 object header/a;10-14 object header/b;");
}

TEST(Structures, WhatPrevailsWinsOverWhatWasNotedBefore) {
  Structures structures;
  structures.set_owner("/user");
  structures.add(0, 4, "object header");
  structures.add(10, 6, "object header");
  structures.set_owner("/kind");
  structures.add(10, 6, "object header");
  structures.prevail();
  EXPECT_EQ(text(std::move(structures), 16), "0-4 object header/user;4-10 unused;10-16 object header/kind;");
}

TEST(Structures, NeighboursOfOneKindAreJoined) {
  Structures structures;
  structures.add(0, 4, "heap");
  structures.add(0, 9, "heap");
  structures.add(20, 5, "tree");
  structures.add(9, 11, "heap");
  EXPECT_EQ(text(structures, 25), "0-20 heap;20-25 tree;");
}

TEST(Structures, NothingReachesBeyondTheFile) {
  Structures structures;
  structures.add(5, ~std::uint64_t{0} - 5, "heap");
  structures.add(90, 4, "tree");
  EXPECT_EQ(text(structures, 8), "0-5 unused;5-8 heap;");
}

TEST(Structures, EveryByteIsFoundAndNoOther) {
  Structures structures;
  structures.add(2, 3, "heap");
  const StructureMap map = std::move(structures).map(9);
  std::string kinds;
  for (std::uint64_t i = 0; i < 9; ++i) kinds += map.at(i).kind[0];
  EXPECT_EQ(kinds, "uuhhhuuuu");
  EXPECT_ERROR((void)map.at(9), internal, "outside of the map");
}

}  // namespace
}  // namespace bitrift::h5map::structures_test
