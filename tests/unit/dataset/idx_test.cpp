#include "dataset/idx.h"

#include <random>
#include <string>

#include <gmock/gmock.h>

#include "dataset/dataset.h"
#include "tests_support.h"
#include "unit/dataset/data_support.h"

namespace bitrift::nn::idx_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tests::gzip;
using tests::idx;

class Idx : public tests::FolderTest {
 protected:
  std::string refusal(const std::string& content, int dimensions) {
    const auto path = write("file", content);
    std::string text = bitrift::tests::error_of([&] { (void)read_idx(path, dimensions); });
    if (text.empty()) return text;
    EXPECT_THAT(text, AllOf(HasSubstr(path.string()), HasSubstr("expected"), HasSubstr("found")));
    return text;
  }
};

TEST_F(Idx, PlainAndGzippedFilesReadAlike) {
  const std::string text = idx(0x803, {2, 1, 3},
                               std::string("abc\0\xff"
                                           "f",
                                           6));
  for (const std::string& content : {text, gzip(text)}) {
    const IdxArray array = read_idx(write("file", content), 3);
    EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2, 1, 3}));
    EXPECT_EQ(std::string(array.bytes.begin(), array.bytes.end()), std::string("abc\0\xff"
                                                                               "f",
                                                                               6));
  }
}

TEST_F(Idx, EveryTruncationIsRefused) {
  const std::string text = idx(0x801, {200}, std::string(200, 'x') + "");
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_NE(refusal(text.substr(0, size), 1), "") << size;
  const std::string packed = gzip(text);
  for (std::size_t size = 0; size < packed.size(); ++size)
    EXPECT_NE(refusal(packed.substr(0, size), 1), "") << size;
  EXPECT_EQ(refusal(packed, 1), "");
}

TEST_F(Idx, BytesBehindTheEndAreRefused) {
  const std::string text = idx(0x801, {2}, "ab");
  EXPECT_THAT(refusal(text + "c", 1), HasSubstr("more bytes"));
  EXPECT_THAT(refusal(gzip(text + "c"), 1), HasSubstr("more bytes"));
  EXPECT_THAT(refusal(gzip(text) + "c", 1), HasSubstr("more bytes"));
  EXPECT_THAT(refusal(gzip(text) + gzip(text), 1), HasSubstr("more bytes"));
}

TEST_F(Idx, AnotherMagicIsRefusedWithBothNumbers) {
  EXPECT_THAT(refusal(idx(0x801, {2}, "ab"), 3), HasSubstr("bytes"));
  EXPECT_THAT(refusal(idx(0x803, {1, 1, 2}, "ab"), 1),
              AllOf(HasSubstr("0x00000801"), HasSubstr("0x00000803")));
  EXPECT_THAT(refusal(idx(0xD01, {2}, "ab"), 1), HasSubstr("0x00000d01"));
}

TEST_F(Idx, SizesThatLieAreRefusedBeforeMemoryIsTaken) {
  EXPECT_THAT(refusal(idx(0x803, {0xffffffff, 0xffffffff, 0xffffffff}, "ab"), 3), HasSubstr("4294967295"));
  EXPECT_THAT(refusal(gzip(idx(0x803, {1, 0xffff, 0xffff}, "ab")), 3), HasSubstr("65535"));
  EXPECT_THAT(refusal(idx(0x801, {0}, ""), 1), HasSubstr("dimension 0"));
}

TEST_F(Idx, DamageWithinGzipIsRefused) {
  std::string packed = gzip(idx(0x801, {200}, std::string(100, 'x') + std::string(100, 'y')));
  packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 1);  // in its CRC
  EXPECT_THAT(refusal(packed, 1), HasSubstr("damaged"));
}

TEST_F(Idx, FlippedBytesAreRefusedOrReadNeverWorse) {
  std::mt19937 random(7);
  for (const std::string& whole :
       {idx(0x803, {3, 4, 5}, std::string(60, 'x')), gzip(idx(0x803, {3, 4, 5}, std::string(60, 'x')))}) {
    int refused = 0;
    for (int trial = 0; trial < 500; ++trial) {
      std::string bytes = whole;
      for (auto flips = random() % 3 + 1; flips > 0; --flips) {
        char& byte = bytes[random() % bytes.size()];
        byte = static_cast<char>(byte ^ static_cast<char>(1 + random() % 255));
      }
      refused += refusal(bytes, 3).empty() ? 0 : 1;
    }
    EXPECT_GT(refused, 50);
  }
}

}  // namespace
}  // namespace bitrift::nn::idx_test
