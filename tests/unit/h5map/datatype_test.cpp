#include "h5map/message/datatype.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "unit/scratch.h"

namespace bitrift::h5map::datatype_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

DatatypePtr parse(const Bytes& bytes) {
  Cursor cursor(bytes, "f.h5", "datatype");
  return parse_datatype(cursor, "f.h5");
}

/// Class and version, three bytes of flags, size, properties.
Bytes message(unsigned version, unsigned type_class, std::uint32_t flags, std::uint32_t size,
              const Bytes& rest) {
  Bytes bytes = {static_cast<std::uint8_t>(version << 4U | type_class)};
  for (unsigned i = 0; i < 3; ++i) bytes.push_back(static_cast<std::uint8_t>(flags >> (8 * i)));
  for (unsigned i = 0; i < 4; ++i) bytes.push_back(static_cast<std::uint8_t>(size >> (8 * i)));
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

const Bytes int32_fields = {0, 0, 32, 0};
const Bytes float32_fields = {0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0};

TEST(Datatype, NumbersHaveTheirFormatInBothByteOrders) {
  EXPECT_EQ(parse(message(1, 0, 8, 4, int32_fields))->number(), number_format("int32"));
  EXPECT_EQ(parse(message(1, 0, 0, 4, int32_fields))->name(), "uint32");
  const auto big = parse(message(3, 1, 0x1f21, 4, float32_fields))->number();
  ASSERT_TRUE(big);
  EXPECT_EQ(big->order, ByteOrder::big);
  EXPECT_EQ(big->name(), "float32");
}

TEST(Datatype, VaxOrderIsNoFormatThatCanBeAltered) {
  const DatatypePtr type = parse(message(3, 1, 0x1f61, 4, float32_fields));
  EXPECT_EQ(type->order, StoredOrder::vax);
  EXPECT_EQ(type->name(), "float32 (8 exponent, 23 mantissa bits), VAX order");
  EXPECT_FALSE(type->number());
}

TEST(Datatype, AnyOtherFieldMakesAnotherFormat) {
  const Bytes other_bias = {0, 0, 32, 0, 23, 8, 0, 23, 126, 0, 0, 0};
  const Bytes narrow_exponent = {0, 0, 32, 0, 23, 7, 0, 23, 63, 0, 0, 0};
  const Bytes gap_below_exponent = {0, 0, 32, 0, 23, 8, 0, 22, 127, 0, 0, 0};
  const Bytes shifted = {1, 0, 31, 0, 23, 8, 1, 22, 127, 0, 0, 0};
  for (const Bytes& fields : {other_bias, narrow_exponent, gap_below_exponent, shifted}) {
    EXPECT_FALSE(parse(message(1, 1, 0x1f20, 4, fields))->number());
  }
  EXPECT_FALSE(parse(message(1, 1, 0x1f00, 4, float32_fields))->number());  // no hidden bit
  EXPECT_EQ(parse(message(1, 0, 8, 4, {4, 0, 12, 0}))->name(), "int12_in_32_at_4");
}

TEST(Datatype, TypesAreNestedOnlySoDeep) {
  const auto nested = [](unsigned depth) {
    Bytes bytes = message(1, 0, 8, 4, int32_fields);
    for (unsigned i = 0; i < depth; ++i) bytes = message(3, 9, 0, 16, bytes);
    return bytes;
  };
  EXPECT_FALSE(parse(nested(32))->plain());
  EXPECT_ERROR((void)parse(nested(33)), bad_file, "nested more than 32 deep");
  EXPECT_ERROR((void)parse(nested(5000)), bad_file, "nested more than 32 deep");
}

TEST(Datatype, OldMembersMayHaveDimensionsOfTheirOwn) {
  Bytes rest = {'m', 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  for (const std::uint8_t dimension : Bytes{2, 3, 0, 0}) rest.insert(rest.end(), {dimension, 0, 0, 0});
  const Bytes base = message(1, 1, 0x1f20, 4, float32_fields);
  rest.insert(rest.end(), base.begin(), base.end());
  const DatatypePtr type = parse(message(1, 6, 1, 32, rest));
  ASSERT_EQ(type->members.size(), 1U);
  EXPECT_EQ(type->members[0].name, "m");
  EXPECT_EQ(type->members[0].offset, 8U);
  EXPECT_EQ(type->members[0].type->name(), "array");
  EXPECT_EQ(type->members[0].type->bytes, 24U);
  EXPECT_ERROR((void)parse(message(1, 6, 1, 31, rest)), bad_file,
               "member 0 of 1 lies outside of its compound");
}

TEST(Datatype, WhatContradictsItselfIsRefused) {
  EXPECT_ERROR((void)parse(message(1, 0, 8, 0, int32_fields)), bad_file, "has no size");
  EXPECT_ERROR((void)parse(message(1, 0, 8, 3, int32_fields)), bad_file, "outside of its bytes");
  EXPECT_ERROR((void)parse(message(1, 1, 0x2020, 4, float32_fields)), bad_file, "outside of its bits");
  EXPECT_ERROR((void)parse(message(3, 10, 0, 8, {1, 3, 0, 0, 0, 0x10, 8, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0})),
               bad_file, "not as large as its elements");
  EXPECT_ERROR((void)parse(message(3, 6, 0, 4, {})), bad_file, "has no members");
  EXPECT_ERROR((void)parse(message(3, 6, 3, 4, {'a'})), bad_file, "ends too early");
  EXPECT_ERROR((void)parse(message(6, 0, 8, 4, int32_fields)), unsupported, "version 6");
  EXPECT_ERROR((void)parse(message(3, 12, 0, 4, {})), unsupported, "class 12");
}

}  // namespace
}  // namespace bitrift::h5map::datatype_test
