#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/number/encode_number.h"
#include "core/number/median.h"
#include "core/number/number_format.h"
#include "core/philox.h"
#include "core/text/glob.h"
#include "unit/scratch.h"

namespace bitrift::number_test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

NumberFormat format_of(const char* name) { return number_format(name).value(); }

TEST(NumberFormat, EveryNameIsReadBack) {
  for (const std::string& name : number_format_names()) {
    ASSERT_TRUE(number_format(name)) << name;
    EXPECT_EQ(number_format(name)->name(), name);
  }
  for (const char* name : {"int17_in_32", "uint12_in_16_at_4", "int1_in_8_at_7", "uint63_in_64_at_1"}) {
    ASSERT_TRUE(number_format(name)) << name;
    EXPECT_EQ(number_format(name)->name(), name);
  }
  for (const char* name :
       {"", "int", "int0_in_8", "int8_in_8", "int9_in_8", "int5_in_12", "int5_in_8_at_4", "int5_in_8_at_",
        "int5_in_8_at_0", "uuint5_in_8", "int5_in_8x", "int05_in_8", "float12"}) {
    EXPECT_FALSE(number_format(name)) << name;
  }
}

TEST(NumberFormat, FieldsPartitionTheNarrowFormatsToo) {
  for (const char* name : {"float8_e5m2", "float8_e4m3fn", "bool", "int17_in_32", "uint12_in_16_at_4"}) {
    const NumberFormat format = format_of(name);
    std::uint64_t seen = 0;
    for (const char* field : {"sign", "exponent", "mantissa"}) {
      for (const unsigned bit : bit_field(format, field)) {
        EXPECT_EQ(seen >> bit & 1, 0U) << name << " " << bit;
        EXPECT_EQ(field_of_bit(format, bit), field) << name << " " << bit;
        seen |= std::uint64_t{1} << bit;
      }
    }
    EXPECT_EQ(seen, format.mask()) << name;
  }
  EXPECT_EQ(format_of("bool").bits(), 1U);
  EXPECT_EQ(bit_field(format_of("float8_e4m3fn"), "exponent_msb"), std::vector<unsigned>{6});
}

TEST(NumberFormat, PaddingIsNoPartOfTheValueAndStays) {
  NumberFormat format = format_of("uint12_in_16_at_3");
  for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
    format.order = order;
    std::uint8_t stored[2] = {0xff, 0xff};
    EXPECT_EQ(load_pattern(format, stored), 0xfffU);
    store_pattern(format, 0, stored);
    EXPECT_EQ(stored[order == ByteOrder::little ? 0 : 1], 0x07);
    EXPECT_EQ(stored[order == ByteOrder::little ? 1 : 0], 0x80);
    store_pattern(format, 0xabc, stored);
    EXPECT_EQ(load_pattern(format, stored), 0xabcU);
  }
  std::uint8_t flag = 0xa4;  // not what a bool should hold
  store_pattern(format_of("bool"), 1, &flag);
  EXPECT_EQ(flag, 0xa5);
}

TEST(NumberFormat, FloatsOfEightBitsMeanWhatTheirPaperSays) {
  const NumberFormat e4m3 = format_of("float8_e4m3fn");
  EXPECT_EQ(decode_number(e4m3, 0x7e), 448);
  EXPECT_EQ(decode_number(e4m3, 0x78), 256);  // all exponent bits set, and yet a number
  EXPECT_EQ(decode_number(e4m3, 0x01), 0x1p-9);
  EXPECT_TRUE(std::isnan(decode_number(e4m3, 0x7f)));
  EXPECT_TRUE(std::isnan(decode_number(e4m3, 0xff)));
  EXPECT_EQ(max_pattern(e4m3), 0x7eU);
  EXPECT_EQ(nan_pattern(e4m3), 0x7fU);
  EXPECT_ERROR(static_cast<void>(infinity_pattern(e4m3)), unsupported, "no infinity");
  const NumberFormat e5m2 = format_of("float8_e5m2");
  EXPECT_EQ(decode_number(e5m2, 0x7b), 57344);
  EXPECT_EQ(decode_number(e5m2, 0xfc), -infinity);
  EXPECT_EQ(max_pattern(e5m2), 0x7bU);
}

TEST(NumberFormat, PowersOfTwoAreExponentsAlone) {
  const NumberFormat e8m0 = format_of("float8_e8m0");
  EXPECT_EQ(bit_field(e8m0, "exponent").size(), 8U);
  EXPECT_EQ(bit_field(e8m0, "exponent_msb"), std::vector<unsigned>{7});
  EXPECT_TRUE(bit_field(e8m0, "sign").empty());
  EXPECT_TRUE(bit_field(e8m0, "mantissa").empty());
  EXPECT_EQ(field_of_bit(e8m0, 7), "exponent");
  EXPECT_EQ(sign_mask(e8m0), 0U);
  for (std::uint64_t pattern = 0; pattern < 255; ++pattern) {
    const double value = std::ldexp(1.0, static_cast<int>(pattern) - 127);
    EXPECT_EQ(decode_number(e8m0, pattern), value);
    EXPECT_EQ(encode_floating(e8m0, value), pattern);
    EXPECT_EQ(encode_floating(e8m0, 1.49 * value), pattern);
    EXPECT_EQ(encode_floating(e8m0, 1.5 * value), pattern + 1);
  }
  EXPECT_FALSE(is_finite(e8m0, 255));
  EXPECT_TRUE(std::isnan(decode_number(e8m0, 255)));
  EXPECT_EQ(nan_pattern(e8m0), 255U);
  EXPECT_EQ(max_pattern(e8m0), 254U);
  EXPECT_EQ(encode_floating(e8m0, 1e300), 255U);
  EXPECT_EQ(encode_floating(e8m0, 1e-300), 0U);
  for (const double none : {0.0, -0.0, -1.0, -std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(encode_floating(e8m0, none), 255U);
  }
  for (const double factor : {0.0, -2.0}) EXPECT_EQ(scale_pattern(e8m0, 127, factor), std::nullopt);
  EXPECT_EQ(scale_pattern(e8m0, 127, 3), 129U);
  EXPECT_EQ(scale_pattern(e8m0, 255, -1), 255U);
  EXPECT_EQ(encode_text(e8m0, "0"), std::nullopt);
  EXPECT_EQ(encode_text(e8m0, "-inf"), std::nullopt);
  EXPECT_EQ(encode_text(e8m0, "nan"), 255U);
  EXPECT_EQ(encode_text(e8m0, "0.25"), 125U);
}

TEST(EncodeFloating, HalfAByteHasNoNanAndNoInfinity) {
  const NumberFormat e2m1 = format_of("float4_e2m1");
  EXPECT_EQ(e2m1.name(), "float4_e2m1");
  EXPECT_EQ(e2m1.bits(), 4U);
  // "OCP Microscaling Formats (MX) Specification", version 1.0, table 5.
  const std::vector<double> values = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (std::uint64_t pattern = 0; pattern < values.size(); ++pattern) {
    EXPECT_EQ(decode_number(e2m1, pattern), values[pattern]);
    EXPECT_EQ(decode_number(e2m1, pattern | 8), -values[pattern]);
    EXPECT_EQ(encode_floating(e2m1, values[pattern]), pattern);
    EXPECT_EQ(encode_floating(e2m1, -values[pattern]), pattern | 8);
    EXPECT_TRUE(is_finite(e2m1, pattern) && is_finite(e2m1, pattern | 8));
  }
  EXPECT_EQ(encode_floating(e2m1, 2.5), 4U);  // ties to even
  EXPECT_EQ(encode_floating(e2m1, 3.5), 6U);
  EXPECT_EQ(encode_floating(e2m1, -5.1), 15U);
  EXPECT_EQ(encode_floating(e2m1, 1e9), 7U);  // the largest value, not infinity
  EXPECT_EQ(encode_floating(e2m1, -infinity), 15U);
  EXPECT_EQ(max_pattern(e2m1), 7U);
  EXPECT_EQ(encode_text(e2m1, "nan"), std::nullopt);
  EXPECT_EQ(scale_pattern(e2m1, 3, 2), 5U);
  EXPECT_ERROR(static_cast<void>(nan_pattern(e2m1)), unsupported, "has no NaN");
  EXPECT_ERROR(static_cast<void>(infinity_pattern(e2m1)), unsupported, "has no infinity");
  EXPECT_EQ(field_of_bit(e2m1, 3), "sign");
  EXPECT_EQ(bit_field(e2m1, "exponent"), (std::vector<unsigned>{1, 2}));
  EXPECT_EQ(bit_field(e2m1, "exponent_msb"), std::vector<unsigned>{2});
  std::uint8_t byte = 0xA5;
  NumberFormat high = e2m1;
  high.bit_offset = 4;
  EXPECT_EQ(load_pattern(high, &byte), 0xAU);
  store_pattern(high, 0x3, &byte);
  EXPECT_EQ(byte, 0x35);
}

TEST(EncodeFloating, EveryValueOfANarrowFormatComesBack) {
  for (const char* name :
       {"float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float16", "bfloat16"}) {
    const NumberFormat format = format_of(name);
    for (std::uint64_t pattern = 0; pattern <= format.mask(); ++pattern) {
      const double value = decode_number(format, pattern);
      if (std::isnan(value)) continue;
      ASSERT_EQ(encode_floating(format, value), pattern) << name;
    }
  }
}

TEST(EncodeFloating, TiesGoToTheEvenNeighbourAndNothingElseDoes) {
  for (const char* name :
       {"float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float16", "bfloat16"}) {
    const NumberFormat format = format_of(name);
    for (std::uint64_t pattern = 0; pattern < max_pattern(format); ++pattern) {
      const double middle = (decode_number(format, pattern) + decode_number(format, pattern + 1)) / 2;
      ASSERT_EQ(encode_floating(format, middle), pattern + (pattern & 1)) << name;
      ASSERT_EQ(encode_floating(format, std::nextafter(middle, infinity)), pattern + 1) << name;
      const bool one_zero = pattern == 0 && format.unsigned_zero;
      ASSERT_EQ(encode_floating(format, -std::nextafter(middle, 0)),
                one_zero ? 0 : pattern | sign_mask(format))
          << name;
    }
  }
}

TEST(EncodeFloating, OverflowIsInfinityOrNaNWhereThereIsNone) {
  const NumberFormat half = format_of("float16");
  EXPECT_EQ(encode_floating(half, 65519.999), 0x7bffU);
  EXPECT_EQ(encode_floating(half, 65520), 0x7c00U);
  EXPECT_EQ(encode_floating(half, -1e300), 0xfc00U);
  const NumberFormat e4m3 = format_of("float8_e4m3fn");
  EXPECT_EQ(encode_floating(e4m3, 464), 0x7eU);
  EXPECT_EQ(encode_floating(e4m3, 464.001), 0x7fU);
  EXPECT_EQ(encode_floating(e4m3, -infinity), 0xffU);
  EXPECT_EQ(encode_floating(half, -std::numeric_limits<double>::quiet_NaN()), 0xfe00U);
  EXPECT_EQ(encode_floating(half, -0.0), 0x8000U);
}

TEST(EncodeFloating, RoundsToFloat32AsTheProcessorDoes) {
  const NumberFormat format = format_of("float32");
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    // Every exponent of float32 and those around it, where subnormal numbers begin and overflow is.
    const std::uint64_t random = random_u64(5, i, 0);
    const std::uint64_t exponent = 1023 - 155 + random_u64(5, i, 1) % (155 + 135);
    const double value = std::bit_cast<double>((random & 0x800fffffffffffff) | exponent << 52);
    ASSERT_EQ(encode_floating(format, value), std::bit_cast<std::uint32_t>(static_cast<float>(value)))
        << value;
  }
  const double any = -1234.5678;
  EXPECT_EQ(encode_floating(format_of("float64"), any), std::bit_cast<std::uint64_t>(any));
  EXPECT_EQ(encode_floating(format_of("float64"), 0x1p-1074), 1U);
}

TEST(ScalePattern, RoundsTheExactProductOnce) {
  const NumberFormat format = format_of("float32");
  // Products a * f = k * 2^40 + 2^39 + e with small e > 0 are just above the middle of two floats; in double
  // they are that middle, which would go to the even k.
  const std::uint64_t a = 12'345'679;
  int found = 0;
  for (std::uint64_t k = 1U << 23; k < 1U << 24; k += 2) {
    const std::uint64_t middle = k << 40 | std::uint64_t{1} << 39;
    const std::uint64_t f = (middle + a - 1) / a;
    if (f * a == middle || f * a - middle >= 1024) continue;
    ++found;
    const double factor = std::ldexp(static_cast<double>(f), -40);
    const double twice = static_cast<double>(a) * factor;
    EXPECT_EQ(static_cast<float>(twice), static_cast<float>(k));
    const std::uint64_t pattern = std::bit_cast<std::uint32_t>(static_cast<float>(a));
    EXPECT_EQ(scale_pattern(format, pattern, factor),
              std::bit_cast<std::uint32_t>(static_cast<float>(k + 1)));
    EXPECT_EQ(scale_pattern(format, pattern, -factor),
              std::bit_cast<std::uint32_t>(-static_cast<float>(k + 1)));
  }
  EXPECT_GT(found, 100);
  EXPECT_EQ(scale_pattern(format, 0x7fc00001, 2).value(), 0x7fc00001U);  // a NaN stays itself
  EXPECT_FALSE(is_finite(format, scale_pattern(format, 0x7f800000, 0).value()));
  EXPECT_EQ(scale_pattern(format, 0x3f800000, 1e39).value(), 0x7f800000U);
}

TEST(ScalePattern, IntegersAreExactOrRefused) {
  const NumberFormat wide = format_of("int64");
  EXPECT_EQ(scale_pattern(wide, 9007199254740993, 2), 18014398509481986U);
  EXPECT_EQ(scale_pattern(wide, 3, 0.5), std::nullopt);
  EXPECT_EQ(scale_pattern(wide, 6, -0.5), ~std::uint64_t{0} - 2);
  EXPECT_EQ(scale_pattern(wide, 5, 0), 0U);
  EXPECT_EQ(scale_pattern(wide, 1, 0x1p62), std::uint64_t{1} << 62);
  EXPECT_EQ(scale_pattern(wide, 1, 0x1p63), std::nullopt);
  EXPECT_EQ(scale_pattern(wide, 1, -0x1p63), std::uint64_t{1} << 63);
  EXPECT_EQ(scale_pattern(wide, 1, 1e300), std::nullopt);
  EXPECT_EQ(scale_pattern(wide, std::uint64_t{1} << 63, -1), std::nullopt);
  EXPECT_EQ(scale_pattern(format_of("uint64"), ~std::uint64_t{0}, 1), ~std::uint64_t{0});
  EXPECT_EQ(scale_pattern(format_of("uint8"), 5, -1), std::nullopt);
  EXPECT_EQ(scale_pattern(format_of("uint8"), 0, -1), 0U);
  EXPECT_EQ(scale_pattern(format_of("int8"), 0x80, 0.5), 0xc0U);
  EXPECT_EQ(scale_pattern(format_of("int17_in_32"), 0x10000, 1), 0x10000U);  // -65536
}

TEST(EncodeText, IntegersHoldEveryDigit) {
  EXPECT_EQ(encode_text(format_of("uint64"), "18446744073709551615"), ~std::uint64_t{0});
  EXPECT_EQ(encode_text(format_of("uint64"), "18446744073709551616"), std::nullopt);
  EXPECT_EQ(encode_text(format_of("int64"), "-9223372036854775808"), std::uint64_t{1} << 63);
  EXPECT_EQ(encode_text(format_of("int64"), "9223372036854775808"), std::nullopt);
  EXPECT_EQ(encode_text(format_of("int8"), "-128"), 0x80U);
  EXPECT_EQ(encode_text(format_of("int8"), "+127"), 0x7fU);
  EXPECT_EQ(encode_text(format_of("bool"), "2"), std::nullopt);
  for (const char* text : {"1.5", "1e2", "nan", "inf"}) {
    EXPECT_EQ(encode_text(format_of("int32"), text), std::nullopt) << text;
  }
  EXPECT_EQ(encode_text(format_of("uint8"), "-0"), 0U);
}

TEST(EncodeText, FloatsTakeNumbersOfAnySizeAndNothingElse) {
  const NumberFormat format = format_of("float32");
  EXPECT_EQ(encode_text(format, "-2.5"), 0xc0200000U);
  EXPECT_EQ(encode_text(format, "1e400"), 0x7f800000U);
  EXPECT_EQ(encode_text(format, "-1e-400"), 0x80000000U);
  EXPECT_EQ(encode_text(format, "-inf"), 0xff800000U);
  EXPECT_EQ(encode_text(format, "nan"), 0x7fc00000U);
  for (const char* text : {"", " 1", "1 ", "0x10", "one", "+-1", "1,5", "--1", "e5"}) {
    EXPECT_ERROR(static_cast<void>(encode_text(format, text)), bad_input, "is not a number");
  }
}

TEST(GlobSelects, PartsAreReachedByTheirOwnPathAndByTheirHolders) {
  EXPECT_TRUE(glob_selects("group/data:x", "group/data:x", "group/data", false));
  EXPECT_TRUE(glob_selects("group/data", "group/data:x", "group/data", false));
  EXPECT_TRUE(glob_selects("*/data:*", "group/data:x", "group/data", false));
  EXPECT_FALSE(glob_selects("group/dat", "group/data:x", "group/data", false));
  EXPECT_FALSE(glob_selects("dense/kernel", "dense/kernel:0", "", false));  // a name with a colon, no part
}

TEST(GlobSelects, AttributesNeedTheirSign) {
  EXPECT_FALSE(glob_selects("**", "model@epoch", "", true));
  EXPECT_TRUE(glob_selects("model@*", "model@epoch", "", true));
  EXPECT_TRUE(glob_selects("**@**", "model@epoch:re", "model@epoch", true));
  EXPECT_FALSE(glob_selects("model", "model@epoch:re", "model", true));
  EXPECT_TRUE(glob_selects("a*", "a@b", "", false));  // a dataset with such a name is none
}

double median_of(std::vector<double> values) { return median(values); }

TEST(Median, IsTheMiddleOrTheMidpointOfTwo) {
  EXPECT_EQ(median_of({3}), 3);
  EXPECT_EQ(median_of({5, 1, 4}), 4);
  EXPECT_EQ(median_of({5, 1, 4, 2}), 3);
  EXPECT_EQ(median_of({2, 2, 2, 9, 0, 2}), 2);
  EXPECT_TRUE(std::isnan(median_of({})));
}

TEST(Median, NeitherOverflowsNorLosesInfinities) {
  constexpr double most = std::numeric_limits<double>::max();
  EXPECT_EQ(median_of({most, most}), most);
  EXPECT_EQ(median_of({infinity, 1, infinity, infinity}), infinity);
  EXPECT_EQ(median_of({-infinity, -infinity}), -infinity);
}

}  // namespace
}  // namespace bitrift::number_test
