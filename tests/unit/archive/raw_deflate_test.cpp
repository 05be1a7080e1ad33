#include "archive/raw_deflate.h"

#include <algorithm>
#include <random>

#include "archive/crc32.h"
#include "unit/scratch.h"

namespace bitrift::archive {
namespace {

using Bytes = std::vector<std::uint8_t>;

// zlib.compressobj(wbits=-15) of b"bitrift bitrift bitrift"
const Bytes packed = {0x4b, 0xca, 0x2c, 0x29, 0xca, 0x4c, 0x2b, 0x51, 0x48, 0x42, 0xa5, 0x01};
const std::string hello = "bitrift bitrift bitrift";

TEST(RawDeflate, WhatZlibPackedIsUnpacked) {
  EXPECT_EQ(inflate_raw(packed, hello.size()), Bytes(hello.begin(), hello.end()));
  EXPECT_ERROR(static_cast<void>(inflate_raw(packed, hello.size() - 1)), bad_file, "does not give");
  EXPECT_ERROR(static_cast<void>(inflate_raw(packed, hello.size() + 1)), bad_file, "does not give");
  EXPECT_ERROR(static_cast<void>(inflate_raw(std::span(packed).first(5), hello.size())), bad_file,
               "ends too early");
}

TEST(RawDeflate, WhatIsPackedIsUnpackedAgain) {
  Bytes bytes(100'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * i / 7);
  EXPECT_EQ(inflate_raw(deflate_raw(bytes, 0), bytes.size()), bytes);
}

TEST(RawDeflate, WhatChangesLittleKeepsMostPackedBytes) {
  // As weights are: three bytes that look random, then sign and exponent.
  Bytes bytes(100'000);
  std::mt19937 random(4);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(i % 4 == 3 ? 0x3bU + random() % 3 : random());
  }
  const Bytes before = deflate_raw(bytes, 0);
  Bytes altered = bytes;
  altered[50'000] ^= 1;
  const Bytes after = deflate_raw_again(before, bytes, altered);
  EXPECT_EQ(inflate_raw(after, altered.size()), altered);
  ASSERT_EQ(after.size(), before.size());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < after.size(); ++i) kept += after[i] == before[i] ? 1 : 0;
  EXPECT_GT(kept, before.size() * 9 / 10);
  std::reverse(altered.begin(), altered.end());  // too much to patch
  EXPECT_EQ(inflate_raw(deflate_raw_again(before, bytes, altered), altered.size()), altered);
}

TEST(RawDeflate, AHeadIsKeptAsItIsBeforeWhatIsPacked) {
  const Bytes head = {'h', 'e', 'a', 'd'};
  Bytes whole = head;
  const Bytes bytes(100'000, 7);
  whole.insert(whole.end(), bytes.begin(), bytes.end());
  const Bytes joined = deflate_behind(head, bytes);
  EXPECT_EQ(inflate_raw(joined, whole.size()), whole);
  EXPECT_LT(joined.size(), 1000U);
  EXPECT_TRUE(std::equal(head.begin(), head.end(), joined.begin() + 5));
  EXPECT_EQ(inflate_raw(deflate_behind(head, {}), head.size()), head);
  EXPECT_EQ(inflate_raw(deflate_behind({}, bytes), bytes.size()), bytes);
  EXPECT_ERROR(static_cast<void>(deflate_behind(Bytes(65536), bytes)), internal, "stored block");
}

TEST(Crc32, OfTwoPartsIsThatOfTheWhole) {
  const Bytes bytes(hello.begin(), hello.end());
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::span all(bytes);
    EXPECT_EQ(crc32(all.subspan(cut), crc32(all.first(cut))), crc32(all)) << cut;
  }
  EXPECT_EQ(crc32(bytes), 0x1349a674U);  // zlib.crc32
  EXPECT_EQ(crc32({}), 0U);
}

TEST(RawDeflate, TheBeginningNeedsNoWholeStream) {
  EXPECT_EQ(inflate_beginning(packed, 4), Bytes({'b', 'i', 't', 'r'}));
  EXPECT_EQ(inflate_beginning(std::span(packed).first(8), 4), Bytes({'b', 'i', 't', 'r'}));
  EXPECT_EQ(inflate_beginning(packed, 100).size(), hello.size());
  EXPECT_ERROR(static_cast<void>(inflate_beginning(Bytes{0xff, 0xff}, 4)), bad_file, "damaged");
}

TEST(RawDeflate, MoreThanDeflateCanMakeIsNoClaim) {
  EXPECT_TRUE(can_inflate_to(10, 10'320));
  EXPECT_FALSE(can_inflate_to(10, 12'000));
}

TEST(Crc32, HasTheCheckValueOfItsDefinition) {
  const std::string digits = "123456789";
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(digits.data());
  EXPECT_EQ(crc32({bytes, digits.size()}), 0xcbf43926U);  // "check" in the catalogue of CRCs, CRC-32/ISO-HDLC
}

TEST(Crc32, FollowsAChangeAnywhere) {
  Bytes bytes(1000, 7);
  const std::uint32_t before = crc32(bytes);
  for (const std::size_t at : {std::size_t{0}, std::size_t{500}, std::size_t{997}}) {
    Bytes altered = bytes;
    const Bytes difference = {1, 0, 0x80};
    for (std::size_t i = 0; i < difference.size(); ++i) altered[at + i] ^= difference[i];
    EXPECT_EQ(crc32_xor(before, difference, bytes.size() - at - difference.size()), crc32(altered));
  }
}

}  // namespace
}  // namespace bitrift::archive
