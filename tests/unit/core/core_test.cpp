#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/crc32c.h"
#include "core/digest.h"
#include "core/error.h"
#include "core/number/number_format.h"
#include "core/permutation.h"
#include "core/philox.h"
#include "core/text/glob.h"

namespace bitrift::core_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Known-answer vectors of the Random123 distribution (kat_vectors, philox 4x32 10).
TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_THAT(philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
              ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(Philox, PurposesOfOneSeedGiveDifferentKeys) {
  EXPECT_NE(derive_key(1, "order"), derive_key(1, "init"));
  EXPECT_NE(derive_key(1, "order"), derive_key(2, "order"));
  EXPECT_EQ(derive_key(1, "order"), derive_key(1, "order"));
}

TEST(Philox, RandomBelowIsUniformAndInRange) {
  std::vector<int> hits(7);
  for (std::uint64_t i = 0; i < 70000; ++i) ++hits.at(random_below(5, i, 0, 7));
  for (const int count : hits) EXPECT_NEAR(count, 10000, 500);  // 5 standard deviations
  EXPECT_EQ(random_below(5, 1, 0, 1), 0u);
}

TEST(Permutation, VisitsEveryMemberOnce) {
  for (const std::uint64_t size : {1u, 2u, 3u, 5u, 64u, 1000u, 4097u}) {
    const Permutation permutation(size, 42);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) seen.insert(permutation(i));
    EXPECT_EQ(seen.size(), size);
    EXPECT_EQ(*seen.rbegin(), size - 1);
  }
}

TEST(Permutation, FirstDrawIsUniformOverKeys) {
  std::vector<int> hits(10);
  for (std::uint64_t key = 0; key < 20000; ++key) ++hits.at(Permutation(10, key)(0));
  for (const int count : hits) EXPECT_NEAR(count, 2000, 220);  // 5 standard deviations
}

TEST(Permutation, PairsOfDrawsAreUniformOverKeys) {
  std::vector<int> hits(25);
  for (std::uint64_t key = 0; key < 40000; ++key) {
    const Permutation permutation(5, key);
    ++hits.at(permutation(0) * 5 + permutation(1));
  }
  for (std::uint64_t i = 0; i < 25; ++i) {
    if (i / 5 == i % 5) {
      EXPECT_EQ(hits[i], 0);
    } else {
      EXPECT_NEAR(hits[i], 2000, 225);
    }
  }
}

TEST(Permutation, DrawsFromAPopulationTooLargeToShuffleAreDistinctAndSpread) {
  constexpr std::uint64_t size = 100'003;
  const Permutation permutation(size, 3);
  std::vector<bool> seen(size);
  std::vector<int> first_quarter(10);
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t value = permutation(i);
    ASSERT_LT(value, size);
    ASSERT_FALSE(seen[value]);
    seen[value] = true;
    if (i < size / 4) ++first_quarter.at(value * 10 / size);
  }
  for (const int count : first_quarter) EXPECT_NEAR(count, 2500, 220);
}

TEST(Permutation, WorksOnHugePopulationsAndRefusesImpossibleOnes) {
  for (const std::uint64_t size :
       {std::uint64_t{1} << 62, (std::uint64_t{1} << 62) + 1, std::uint64_t{1} << 63}) {
    const Permutation permutation(size, 7);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 1000; ++i) seen.insert(permutation(i));
    EXPECT_EQ(seen.size(), 1000U);
    EXPECT_LT(*seen.rbegin(), size);
    EXPECT_LT(permutation(size - 1), size);
    EXPECT_FALSE(seen.contains(permutation(size - 1)));
  }
  EXPECT_THROW(Permutation(0, 1), Error);
  EXPECT_THROW(Permutation((std::uint64_t{1} << 63) + 1, 1), Error);
}

TEST(NumberFormat, FieldsPartitionTheBitsOfEveryFormat) {
  for (const char* name :
       {"float64", "float32", "float16", "bfloat16", "int8", "int64", "uint16", "uint32"}) {
    const NumberFormat format = *number_format(name);
    EXPECT_EQ(format.name(), name);
    std::multiset<unsigned> bits;
    for (const char* field : {"sign", "exponent", "mantissa"}) {
      for (const unsigned bit : bit_field(format, field)) {
        bits.insert(bit);
        EXPECT_EQ(field_of_bit(format, bit), field) << name << " bit " << bit;
      }
    }
    EXPECT_EQ(bits.size(), format.bits());
    EXPECT_EQ(std::set<unsigned>(bits.begin(), bits.end()).size(), format.bits());
  }
}

TEST(NumberFormat, NamesTheCriticalBitOfEveryFloat) {
  EXPECT_THAT(bit_field(*number_format("float16"), "exponent_msb"), ElementsAre(14));
  EXPECT_THAT(bit_field(*number_format("bfloat16"), "exponent_msb"), ElementsAre(14));
  EXPECT_THAT(bit_field(*number_format("float32"), "exponent_msb"), ElementsAre(30));
  EXPECT_THAT(bit_field(*number_format("float64"), "exponent_msb"), ElementsAre(62));
  EXPECT_THAT(bit_field(*number_format("int32"), "exponent_msb"), IsEmpty());
}

TEST(NumberFormat, ReadsRangesAndLists) {
  const NumberFormat format = *number_format("float32");
  EXPECT_THAT(bit_field(format, "23-25"), ElementsAre(23, 24, 25));
  EXPECT_THAT(bit_field(format, "30,3,3"), ElementsAre(3, 30));
  EXPECT_THAT(bit_field(format, "31-32"), IsEmpty());
  for (const char* bad : {"", "-1", "5-", "9-3", "3,", "64", "signs", "1 2", "99999999999999999999"}) {
    EXPECT_THROW((void)bit_field(format, bad), Error) << bad;
  }
}

TEST(NumberFormat, DecodesPatternsAsTheHardwareDoes) {
  const auto expect = [](const char* name, std::uint64_t pattern, double value) {
    EXPECT_EQ(decode_number(*number_format(name), pattern), value) << name << " " << pattern;
  };
  expect("float32", 0x3f800000, 1.0);
  expect("float32", 0x00000001, 0x1p-149);
  expect("float32", 0xff800000, -std::numeric_limits<double>::infinity());
  expect("float16", 0x7bff, 65504.0);
  expect("float16", 0x0001, 0x1p-24);
  expect("bfloat16", 0x4049, 3.140625);
  expect("float64", 0x0000000000000001, 0x1p-1074);
  expect("float64", 0x7fefffffffffffff, std::numeric_limits<double>::max());
  expect("int8", 0x80, -128);
  expect("int64", ~std::uint64_t{0}, -1);
  expect("uint8", 0xff, 255);
  EXPECT_TRUE(std::isnan(decode_number(*number_format("float32"), nan_pattern(*number_format("float32")))));
  EXPECT_EQ(infinity_pattern(*number_format("float16")), 0x7c00u);
  EXPECT_THROW((void)nan_pattern(*number_format("int32")), Error);
}

TEST(NumberFormat, PatternsSurviveEitherByteOrder) {
  NumberFormat format = *number_format("float32");
  format.order = ByteOrder::big;
  const std::uint8_t stored[4] = {0x3f, 0x80, 0x00, 0x01};
  EXPECT_EQ(load_pattern(format, stored), 0x3f800001u);
  std::uint8_t back[4] = {};
  store_pattern(format, 0x3f800001u, back);
  EXPECT_EQ(std::memcmp(stored, back, 4), 0);
}

TEST(Crc32c, GivesThePublishedValues) {  // RFC 3720, appendix B.4
  std::vector<std::uint8_t> bytes(32, 0);
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x8a9136aau);
  bytes.assign(32, 0xff);
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x62a8ab43u);
  for (std::uint8_t i = 0; i < 32; ++i) bytes[i] = i;
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x46dd794eu);
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
}

TEST(Crc32c, ContinuesFromAnEarlierResult) {
  const char text[] = "one bit is enough";
  EXPECT_EQ(crc32c(text + 5, sizeof text - 5, crc32c(text, 5)), crc32c(text, sizeof text));
}

TEST(Crc32c, OfALongMessageIsThatOfItsDefinition) {
  std::vector<std::uint8_t> bytes(100'003);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * i >> 3);
  std::uint32_t state = 0xFFFFFFFF;  // bit by bit
  std::size_t at = 0;
  for (const std::size_t length : {24'575u, 24'576u, 24'577u, 49'152u, 73'735u, 100'003u}) {
    for (; at < length; ++at) {
      state ^= bytes[at];
      for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82F63B78 : 0);
    }
    EXPECT_EQ(crc32c(bytes.data(), length), ~state) << length;
    EXPECT_EQ(crc32c(bytes.data() + 1, length - 1, crc32c(bytes.data(), 1)), ~state) << length;
  }
}

TEST(Crc32c, UpdateEqualsRecomputationForEveryByteAndLength) {
  for (const std::size_t length : {1u, 7u, 8u, 63u, 1000u}) {
    std::vector<std::uint8_t> bytes(length);
    for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::uint8_t>(i * 37);
    const std::uint32_t before = crc32c(bytes.data(), length);
    for (std::size_t at = 0; at < length; at += 1 + length / 17) {
      auto altered = bytes;
      const auto difference = static_cast<std::uint8_t>(1u << (at % 8));
      altered[at] ^= difference;
      EXPECT_EQ(crc32c_xor(before, &difference, 1, length - 1 - at), crc32c(altered.data(), length));
    }
  }
}

TEST(Digest, GivesXxhsumsValueHoweverItIsFed) {
  EXPECT_EQ(digest_bytes("", 0), "99aa06d3014798d86001c324468d497f");  // printf '' | xxhsum -H2
  EXPECT_EQ(Digest().add("bit").add("rift").hex(), digest_bytes("bitrift", 7));
}

TEST(Glob, StaysWithinANameUnlessDoubled) {
  EXPECT_TRUE(glob_match("model/*.weight", "model/conv1.weight"));
  EXPECT_FALSE(glob_match("model/*.weight", "model/layer1.conv.weight"));
  EXPECT_TRUE(glob_match("model/**.weight", "model/layer1.conv.weight"));
  EXPECT_TRUE(glob_match("**", "optimizer/momentum_buffer/fc1.bias"));
  EXPECT_TRUE(glob_match("/model/fc?.bias", "model/fc1.bias"));
  EXPECT_TRUE(glob_match("", ""));
  EXPECT_FALSE(glob_match("*", "model/x"));
}

TEST(Glob, APrefixIsNotAMatch) {
  EXPECT_FALSE(glob_match("model/layer1.*", "model/layer10.weight"));
  EXPECT_FALSE(glob_match("model/layer1", "model/layer1.weight"));
}

TEST(Glob, ManyStarsTakeNoExponentialTime) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "**a";
  EXPECT_FALSE(glob_match(pattern, std::string(2000, 'a') + "b"));
}

TEST(Error, CarriesTheKeyThatItSpeaksOf) {
  try {
    fail_at(ErrorCode::bad_input, "data.mean", "{} is odd", 1);
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "1 is odd");
    EXPECT_STREQ(error.key(), "data.mean");
  }
  EXPECT_STREQ(Error(ErrorCode::internal, "x").key(), "");
}

TEST(Error, OnlyOurOwnFaultsExitWithThree) {
  EXPECT_EQ(Error(ErrorCode::internal, "x").exit_code(), 3);
  for (const ErrorCode code : {ErrorCode::bad_input, ErrorCode::not_found, ErrorCode::bad_file,
                               ErrorCode::unsupported, ErrorCode::io, ErrorCode::busy, ErrorCode::conflict}) {
    EXPECT_EQ(Error(code, "x").exit_code(), 2);
  }
}

}  // namespace
}  // namespace bitrift::core_test
