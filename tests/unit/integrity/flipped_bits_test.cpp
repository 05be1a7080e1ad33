#include "integrity/flipped_bits.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gmock/gmock.h>

#include "archive/crc32.h"
#include "core/crc32c.h"
#include "core/crc_algebra.h"

namespace bitrift::integrity {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::uint32_t crc(CrcKind kind, const Bytes& message) {
  return kind == CrcKind::crc32 ? archive::crc32(message) : crc32c(message.data(), message.size());
}

Bytes random_message(std::mt19937_64& random, std::size_t bytes) {
  Bytes message(bytes);
  std::generate(message.begin(), message.end(), [&] { return static_cast<std::uint8_t>(random()); });
  return message;
}

MessageBit random_bit(std::mt19937_64& random, std::size_t bytes) {
  return {random() % bytes, static_cast<unsigned>(random() % 8)};
}

void flip(Bytes& message, const MessageBit& bit) {
  message[bit.byte] ^= static_cast<std::uint8_t>(1U << bit.bit);
}

class FlippedBits : public ::testing::TestWithParam<CrcKind> {};

TEST_P(FlippedBits, EverySingleOneIsFound) {
  std::mt19937_64 random(1);
  for (const std::size_t bytes : {1UL, 2UL, 3UL, 4UL, 7UL, 100UL, 4096UL, 1'000'003UL}) {
    const Bytes message = random_message(random, bytes);
    for (int i = 0; i < 40; ++i) {
      const MessageBit bit = i == 0   ? MessageBit{0, 0}
                             : i == 1 ? MessageBit{bytes - 1, 7}
                                      : random_bit(random, bytes);
      Bytes altered = message;
      flip(altered, bit);
      const std::uint32_t difference = crc(GetParam(), message) ^ crc(GetParam(), altered);
      EXPECT_THAT(single_flips(GetParam(), difference, bytes), ::testing::ElementsAre(bit));
    }
  }
}

TEST_P(FlippedBits, PairsInAWordAreFound) {
  std::mt19937_64 random(2);
  for (const std::size_t bytes : {4UL, 6UL, 100UL, 4096UL, 100'000UL}) {
    const Bytes message = random_message(random, bytes);
    for (int i = 0; i < 10; ++i) {
      BitPair two = {random_bit(random, bytes), {}};
      do {
        const std::uint64_t word = two[0].byte / 4 * 4;
        two[1] = {std::min<std::uint64_t>(word + random() % 4, bytes - 1),
                  static_cast<unsigned>(random() % 8)};
      } while (two[0] == two[1]);
      std::sort(two.begin(), two.end());
      Bytes altered = message;
      flip(altered, two[0]);
      flip(altered, two[1]);
      const std::uint32_t difference = crc(GetParam(), message) ^ crc(GetParam(), altered);
      const auto found = double_flips(GetParam(), difference, bytes);
      EXPECT_EQ(std::count_if(found.begin(), found.end(),
                              [&](BitPair one) {
                                std::sort(one.begin(), one.end());
                                return one == two;
                              }),
                1);
      for (const BitPair& one : found) {  // others of a long message explain the sum as well
        Bytes back = altered;
        flip(back, one[0]);
        flip(back, one[1]);
        EXPECT_EQ(crc(GetParam(), back), crc(GetParam(), message));
      }
    }
  }
}

TEST_P(FlippedBits, SoundMessagesHaveNone) {
  EXPECT_TRUE(single_flips(GetParam(), 0, 100).empty());
  EXPECT_TRUE(double_flips(GetParam(), 0, 100).empty());
}

TEST_P(FlippedBits, OtherDamageIsRarelyTakenForASingleOne) {
  std::mt19937_64 random(3);
  constexpr std::size_t bytes = 1 << 16;
  int taken = 0;
  for (int i = 0; i < 200; ++i) {
    taken += single_flips(GetParam(), static_cast<std::uint32_t>(random()), bytes).empty() ? 0 : 1;
  }
  EXPECT_LE(taken, 2);  // 8 * 65536 of 2^32: 0.02 are expected
}

INSTANTIATE_TEST_SUITE_P(, FlippedBits, ::testing::Values(CrcKind::crc32, CrcKind::crc32c),
                         [](const auto& one) { return one.param == CrcKind::crc32 ? "crc32" : "crc32c"; });

TEST(FlippedBitsOrder, TheOrdersOfXAreWhatTheLimitsSay) {
  const auto power = [](auto algebra, std::uint64_t exponent) {
    using Algebra = decltype(algebra);
    std::uint32_t result = 0x80000000, base = 0x40000000;
    for (; exponent != 0; exponent >>= 1U, base = Algebra::multiply(base, base)) {
      if ((exponent & 1U) != 0) result = Algebra::multiply(result, base);
    }
    return result;
  };
  constexpr std::uint64_t crc32 = 0xFFFFFFFF, crc32c = 0x7FFFFFFF;  // the latter is prime
  EXPECT_EQ(power(CrcAlgebra<0xEDB88320>{}, crc32), 0x80000000U);
  for (const std::uint64_t prime : {3U, 5U, 17U, 257U, 65537U})
    EXPECT_NE(power(CrcAlgebra<0xEDB88320>{}, crc32 / prime), 0x80000000U);
  EXPECT_EQ(power(CrcAlgebra<0x82F63B78>{}, crc32c), 0x80000000U);
}

TEST(FlippedBitsOrder, AMessageLongerThanTheOrderHasSeveralCandidates) {
  constexpr std::uint64_t bytes = std::uint64_t{300} << 20U;  // 2^31.2 bits
  const std::uint8_t flipped = 0x80;
  const std::uint32_t difference = crc32c_xor(0, &flipped, 1, 100);
  const auto found = single_flips(CrcKind::crc32c, difference, bytes);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1], (MessageBit{bytes - 101, 7}));
  EXPECT_EQ(8 * (found[1].byte - found[0].byte) + found[1].bit - found[0].bit, (std::uint64_t{1} << 31U) - 1);
}

}  // namespace
}  // namespace bitrift::integrity
