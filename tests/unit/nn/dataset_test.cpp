#include "nn/dataset.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <zlib.h>

#include "core/file.h"
#include "tests_support.h"

namespace bitrift::nn {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string idx(std::uint32_t magic, const std::vector<std::uint32_t>& shape, const std::string& data) {
  std::string text = big_endian(magic);
  for (const std::uint32_t extent : shape) text += big_endian(extent);
  return text + data;
}

std::string gzip(const std::string& text) {
  std::string out(text.size() + 100, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class Idx : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("idx-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& content) {
    replace_text(folder_ / name, content);
    return folder_ / name;
  }
  std::string refusal(const std::string& content, int dimensions) {
    const auto path = write("file", content);
    std::string text = tests::error_of([&] { (void)read_idx(path, dimensions); });
    if (text.empty()) return text;
    EXPECT_THAT(text, AllOf(HasSubstr(path.string()), HasSubstr("expected"), HasSubstr("found")));
    return text;
  }
  // A data set of three training and two test images of 2x2, with one file replaced.
  std::string load(const std::string& replaced, const std::string& content) {
    write("train-images-idx3-ubyte", idx(0x803, {3, 2, 2}, std::string(12, '\x07')));
    write("train-labels-idx1-ubyte", idx(0x801, {3}, std::string("\0\1\2", 3)));
    write("t10k-images-idx3-ubyte", idx(0x803, {2, 2, 2}, std::string(8, '\xff')));
    write("t10k-labels-idx1-ubyte", idx(0x801, {2}, std::string("\2\0", 2)));
    if (!replaced.empty()) write(replaced, content);
    return tests::error_of([&] { loaded_ = load_dataset("idx", folder_.string()); });
  }

  std::filesystem::path folder_;
  Dataset loaded_;
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

TEST_F(Idx, ADataSetThatFitsLoads) {
  ASSERT_EQ(load("", ""), "");
  EXPECT_EQ(loaded_.classes, 3);
  EXPECT_EQ(loaded_.train.size(), 3);
  EXPECT_EQ(loaded_.image_shape(), (std::vector<std::int64_t>{1, 2, 2}));
  EXPECT_EQ(loaded_.train.labels[2].item<std::int64_t>(), 2);
  const torch::Tensor input = to_input(loaded_.train.images);
  EXPECT_EQ(input.scalar_type(), torch::kFloat32);
  EXPECT_EQ(input[0][0][0][0].item<float>(), 7.0F / 255.0F);
}

TEST_F(Idx, FilesThatDoNotFitEachOtherAreRefused) {
  EXPECT_THAT(load("train-labels-idx1-ubyte", idx(0x801, {2}, "ab")),
              AllOf(HasSubstr("train-labels"), HasSubstr("expected 3 labels"), HasSubstr("found 2")));
  EXPECT_THAT(load("t10k-images-idx3-ubyte", idx(0x803, {2, 1, 2}, "abcd")),
              AllOf(HasSubstr("2x2"), HasSubstr("1x2")));
  EXPECT_THAT(load("t10k-labels-idx1-ubyte", idx(0x801, {2}, std::string("\3\0", 2))),
              AllOf(HasSubstr("t10k-labels"), HasSubstr("0 to 2"), HasSubstr("found 3")));
}

TEST_F(Idx, AMissingDataSetSaysHowToGetIt) {
  EXPECT_THAT(tests::error_of([&] { (void)load_dataset("idx", folder_.string()); }),
              AllOf(HasSubstr("train-images-idx3-ubyte[.gz] does not exist"), HasSubstr("data.path")));
  ::setenv("BITRIFT_DATA_DIR", folder_.c_str(), 1);
  EXPECT_THAT(tests::error_of([&] { (void)load_dataset("digits", ""); }),
              AllOf(HasSubstr((folder_ / "digits").string()), HasSubstr("BITRIFT_DATA_DIR")));
  ::unsetenv("BITRIFT_DATA_DIR");
  EXPECT_THAT(tests::error_of([&] { (void)load_dataset("cifar", ""); }), HasSubstr("digits or idx"));
}

TEST(Digits, ShipAsAnIdxDataSet) {
  const Dataset digits = load_dataset("digits", "");
  EXPECT_EQ(digits.classes, 10);
  EXPECT_EQ(digits.train.size(), 1437);
  EXPECT_EQ(digits.test.size(), 360);
  EXPECT_EQ(digits.image_shape(), (std::vector<std::int64_t>{1, 8, 8}));
}

}  // namespace
}  // namespace bitrift::nn
