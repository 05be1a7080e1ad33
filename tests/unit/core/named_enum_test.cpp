#include "core/named_enum.h"

#include <gtest/gtest.h>

#include "unit/scratch.h"

namespace bitrift::named_enum_test {
namespace {

enum class Fruit { apple, pear };
constexpr EnumNames<2> names_of(Fruit) { return {"fruit", {"apple", "pear"}}; }
enum class Nameless { one };

static_assert(NamedEnum<Fruit> && !NamedEnum<Nameless> && !NamedEnum<int>);

TEST(NamedEnum, OneTableServesBothDirections) {
  for (const Fruit fruit : {Fruit::apple, Fruit::pear}) EXPECT_EQ(parse_named<Fruit>(name_of(fruit)), fruit);
  EXPECT_STREQ(name_of(Fruit::pear), "pear");
  EXPECT_EQ(find_named<Fruit>("Pear"), std::nullopt);
  EXPECT_EQ(list_names<Fruit>(), "apple, pear");
  EXPECT_ERROR(static_cast<void>(parse_named<Fruit>("plum")), bad_file, "'plum' is not a valid fruit");
}

}  // namespace
}  // namespace bitrift::named_enum_test
