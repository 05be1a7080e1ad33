#include "core/deflate/stream_patch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deflate_cases.h"
#include "unit/scratch.h"

namespace bitrift::deflate {
namespace {

using testing::DeflateCase;
using testing::DeflateCases;
using testing::DeflateOutcome;
using testing::outcome_of;
using testing::zlib_deflate;
using testing::zlib_inflate;
using testing::ZlibSettings;
using Bytes = std::vector<std::uint8_t>;

/// Weights in single precision, as a chunk of 256 KiB has them; `shuffled`: bytes of one significance
/// together.
Bytes weights(bool shuffled) {
  constexpr std::size_t count = 1U << 16U;
  std::mt19937 random(5);
  Bytes bytes(4 * count);
  for (std::size_t i = 0; i < count; ++i) {
    float value = 0;
    for (int k = 0; k < 6; ++k) value += static_cast<float>(random() % 20001) / 100000.0F - 0.1F;
    std::uint8_t parts[4];
    std::memcpy(parts, &value, 4);
    for (std::size_t b = 0; b < 4; ++b) bytes[shuffled ? b * count + i : 4 * i + b] = parts[b];
  }
  return bytes;
}

std::size_t differing(const Bytes& one, const Bytes& other) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < one.size(); ++i) count += one[i] != other[i] ? 1 : 0;
  return count;
}

/// Patches, checks with zlib what comes of it, and returns it.
Bytes patched(const Bytes& stream, const Bytes& before, const Bytes& after) {
  const auto result = patch_stream(stream, before, after);
  EXPECT_TRUE(result.has_value());
  if (!result) return {};
  EXPECT_EQ(zlib_inflate(*result, after.size()), after);
  return *result;
}

TEST(PatchStream, AFlipInWeightsKeepsTheSizeAndMostBytes) {
  for (const bool shuffled : {false, true}) {
    const Bytes before = weights(shuffled);
    ZlibSettings how;
    how.level = 4;
    const Bytes stream = zlib_deflate(before, how);
    std::size_t kept = 0, changed = 0;
    constexpr std::size_t flips = 24;
    for (std::size_t i = 0; i < flips; ++i) {
      Bytes after = before;
      after[(i * 40'503 + 17) % before.size()] ^= 16;
      const Bytes result = patched(stream, before, after);
      if (result.size() != stream.size()) continue;
      ++kept;
      changed += differing(result, stream);
    }
    EXPECT_GE(kept, flips * 2 / 3);
    EXPECT_LT(changed / kept, stream.size() / 20);
  }
}

TEST(PatchStream, ALiteralWithTheSameCodeLengthIsTheOnlyChange) {
  const Bytes before = weights(false);
  ZlibSettings how;
  how.strategy = Z_FIXED;
  how.level = 1;
  const Bytes stream = zlib_deflate(Bytes{1, 2, 3, 4, 5, 6}, how);
  const Bytes result = patched(stream, {1, 2, 3, 4, 5, 6}, {1, 2, 7, 4, 5, 6});
  EXPECT_EQ(result.size(), stream.size());
  EXPECT_LE(differing(result, stream), 2U);
}

TEST(PatchStream, CopiesOfAnAlteredByteKeepTheirValue) {
  std::string phrase = "the quick brown fox jumps over the lazy dog; ";
  std::string text;
  for (int i = 0; i < 20; ++i) text += phrase;
  const Bytes before(text.begin(), text.end());
  const Bytes stream = zlib_deflate(before, {});
  ASSERT_LT(stream.size(), 2 * phrase.size());  // all the others are copies
  for (std::size_t at = 0; at < before.size(); ++at) {
    Bytes after = before;
    after[at] ^= 1;
    patched(stream, before, after);
  }
}

TEST(PatchStream, AByteWithoutACodeGetsOne) {
  Bytes before(5000);
  std::mt19937 random(3);
  for (auto& byte : before) byte = static_cast<std::uint8_t>('a' + random() % 7);
  const Bytes stream = zlib_deflate(before, {});
  Bytes after = before;
  after[2500] = 200;
  after[2600] = 201;
  EXPECT_LT(patched(stream, before, after).size(), stream.size() + 20);
}

TEST(PatchStream, StoredBlocksAreAlteredInPlace) {
  const Bytes before = weights(false);
  ZlibSettings how;
  how.level = 0;
  const Bytes stream = zlib_deflate(before, how);
  Bytes after = before;
  after[0] ^= 1;
  after[100'000] ^= 1;
  after.back() ^= 0x80;
  const Bytes result = patched(stream, before, after);
  EXPECT_EQ(result.size(), stream.size());
  EXPECT_EQ(differing(result, stream), 3U);
}

TEST(PatchStream, WhatItDoesNotUnderstandIsDeclined) {
  const Bytes before = weights(false);
  const Bytes stream = zlib_deflate(before, {});
  Bytes after = before;
  after[9] ^= 1;
  EXPECT_EQ(patch_stream(std::span(stream).first(3), before, after), std::nullopt);
  EXPECT_EQ(patch_stream(Bytes(100, 0xff), before, after), std::nullopt);
  EXPECT_EQ(patch_stream({}, before, after), std::nullopt);
  for (auto& byte : after) byte ^= 1;
  EXPECT_EQ(patch_stream(stream, before, after), std::nullopt);
  EXPECT_EQ(patch_stream(stream, before, before), stream);
  EXPECT_ERROR(static_cast<void>(patch_stream(stream, before, Bytes(3))), internal, "different sizes");
}

TEST(PatchStream, RandomStreamsHoldTheAlteredContent) {
  constexpr unsigned cases = 4000;
  DeflateCases source(1);
  std::array<unsigned, 4> outcomes{};
  for (unsigned i = 0; i < cases; ++i) {
    const DeflateCase one = source.next();
    const auto outcome = outcome_of(one);
    ASSERT_TRUE(outcome.has_value()) << "case " << i;
    ++outcomes[static_cast<std::size_t>(*outcome)];
  }
  EXPECT_GT(outcomes[static_cast<std::size_t>(DeflateOutcome::same_size)], cases / 3);
  EXPECT_LT(outcomes[static_cast<std::size_t>(DeflateOutcome::declined)], cases / 20);
}

TEST(PatchStream, TheSameArgumentsGiveTheSameBytes) {
  DeflateCases source(2);
  for (unsigned i = 0; i < 200; ++i) {
    const DeflateCase one = source.next();
    EXPECT_EQ(patch_stream(one.stream, one.before, one.after),
              patch_stream(one.stream, one.before, one.after));
  }
}

}  // namespace
}  // namespace bitrift::deflate
