#include "dataset/image/image_file.h"

#include <random>

#include <gmock/gmock.h>

#include "core/file.h"
#include "tests_support.h"
#include "unit/dataset/data_support.h"
#include "unit/dataset/sample_images.h"

namespace bitrift::nn::image_file_test {
namespace {

using bitrift::tests::error_of;
using testing::AllOf;
using testing::HasSubstr;
using tests::from_base64;

class ImageFile : public tests::FolderTest {
 protected:
  // What the cheap look at the header says, and what decoding says; "" when it is accepted.
  std::string header_refusal(const std::string& content) { return told(content, true); }
  std::string refusal(const std::string& content) { return told(content, false); }
  std::string told(const std::string& content, bool header) {
    const auto path = write("image", content);
    std::string text = error_of([&] {
      if (header) (void)check_image_header(path);
      if (!header) (void)decode_image(path);
    });
    EXPECT_TRUE(text.empty() || text.starts_with(path.string())) << text;
    EXPECT_EQ(text.find('\n'), text.npos) << text;
    return text;
  }
};

const std::vector<std::string_view> kinds{tests::jpeg_base64, tests::progressive_base64, tests::png_base64,
                                          tests::palette_base64};

// A chunk of a PNG file with its checksum.
std::string chunk(const std::string& kind_and_data) {
  const auto* bytes = reinterpret_cast<const Bytef*>(kind_and_data.data());
  const uLong crc = crc32(0, bytes, static_cast<uInt>(kind_and_data.size()));
  return tests::big_endian(static_cast<std::uint32_t>(kind_and_data.size() - 4)) + kind_and_data +
         tests::big_endian(static_cast<std::uint32_t>(crc));
}

std::string png_of(std::uint32_t width, std::uint32_t height, const std::string& behind_header,
                   char depth = 8) {
  std::string header = "IHDR" + tests::big_endian(width) + tests::big_endian(height);
  header += depth + std::string("\x02\0\0\0", 4);
  return from_base64(tests::png_base64).substr(0, 8) + chunk(header) + behind_header + chunk("IEND");
}

TEST_F(ImageFile, ImagesOfAllKindsDecodeToTheirSize) {
  for (const std::string_view kind : kinds) {
    const auto path = write("image", from_base64(kind));
    const ImageSize size = check_image_header(path);
    const Pixels pixels = decode_image(path);
    EXPECT_EQ(size.width, 11);
    EXPECT_EQ(size.height, 9);
    EXPECT_EQ(pixels.size.width, 11);
    EXPECT_EQ(pixels.size.height, 9);
    EXPECT_EQ(pixels.rgb.size(), 11U * 9 * 3);
  }
  // The pixels of the PNG are known: (23 x, 28 y, 36 (x y mod 7)).
  const Pixels exact = decode_image(from_base64(tests::png_base64), "x");
  for (std::size_t y = 0; y < 9; ++y) {
    for (std::size_t x = 0; x < 11; ++x) {
      const std::uint8_t* pixel = exact.rgb.data() + 3 * (y * 11 + x);
      ASSERT_EQ(pixel[0], x * 23);
      ASSERT_EQ(pixel[1], y * 28);
      ASSERT_EQ(pixel[2], x * y % 7 * 36);
    }
  }
}

TEST_F(ImageFile, EveryTruncationIsRefusedByBothPasses) {
  for (const std::string_view kind : kinds) {
    const std::string whole = from_base64(kind);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_NE(refusal(whole.substr(0, size)), "") << size << " of " << whole.size();
      EXPECT_NE(header_refusal(whole.substr(0, size)), "") << size << " of " << whole.size();
    }
    EXPECT_EQ(refusal(whole), "");
    EXPECT_EQ(header_refusal(whole), "");
  }
}

TEST_F(ImageFile, FlippedBytesAreRefusedOrDecodedNeverWorse) {
  std::mt19937 random(11);
  for (const std::string_view kind : kinds) {
    const std::string whole = from_base64(kind);
    int refused = 0, decoded = 0;
    for (int trial = 0; trial < 1500; ++trial) {
      std::string bytes = whole;
      for (auto flips = random() % 4 + 1; flips > 0; --flips) {
        char& byte = bytes[random() % bytes.size()];
        byte = static_cast<char>(byte ^ static_cast<char>(1 + random() % 255));
      }
      ++(error_of([&] { (void)decode_image(bytes, "image"); }).empty() ? decoded : refused);
    }
    EXPECT_GT(refused, 100);
    EXPECT_EQ(refused + decoded, 1500);
  }
}

TEST_F(ImageFile, DataOfOthersBehindAnImageAreLeftAlone) {
  for (const std::string_view kind : kinds) {
    EXPECT_EQ(header_refusal(from_base64(kind) + std::string(10000, 'x')), "");
    EXPECT_EQ(refusal(from_base64(kind) + std::string(10000, 'x')), "");
    EXPECT_NE(header_refusal(from_base64(kind).substr(0, 140) + std::string(10000, 'x')), "");
  }
}

TEST_F(ImageFile, WhatIsNoImageIsRefused) {
  for (const std::string& content :
       {std::string(), std::string("GIF89a and more"), std::string("\xff\xd8"), std::string("\x89PNG")}) {
    EXPECT_THAT(refusal(content), HasSubstr("neither format"));
    EXPECT_THAT(header_refusal(content), HasSubstr("neither format"));
  }
  EXPECT_THAT(error_of([&] { (void)check_image_header(folder_ / "none"); }), HasSubstr("none"));
  EXPECT_THAT(error_of([&] { (void)check_image_header(folder_); }), HasSubstr("not a regular file"));
}

TEST_F(ImageFile, CmykIsRefusedByBothPasses) {
  EXPECT_THAT(header_refusal(from_base64(tests::cmyk_base64)), HasSubstr("CMYK"));
  EXPECT_THAT(refusal(from_base64(tests::cmyk_base64)), HasSubstr("CMYK"));
}

TEST_F(ImageFile, SizesThatLieAreRefused) {
  // PNG: more pixels than Deflate could pack into the file, too many altogether, none.
  EXPECT_THAT(header_refusal(png_of(8000, 8000, "")),
              AllOf(HasSubstr("8000 x 8000"), HasSubstr("fits a file")));
  EXPECT_NE(refusal(png_of(8000, 8000, "")), "");
  EXPECT_THAT(refusal(png_of(8000, 8000, chunk("IDATxxxx"))), HasSubstr("fits a file"));
  EXPECT_THAT(header_refusal(png_of(0x7fffffff, 0x7fffffff, "")), HasSubstr("at most"));
  EXPECT_THAT(header_refusal(png_of(0xffffffff, 0xffffffff, "")), HasSubstr("at most"));
  EXPECT_THAT(header_refusal(png_of(0, 5, "")), HasSubstr("without pixels"));
  EXPECT_NE(refusal(png_of(0x7fffffff, 0x7fffffff, "")), "");
  EXPECT_NE(refusal(png_of(0, 5, "")), "");
  // JPEG: another size than there are data for.
  std::string bytes = from_base64(tests::jpeg_base64);
  const std::size_t frame = bytes.find("\xff\xc0");
  ASSERT_NE(frame, bytes.npos);
  bytes.replace(frame + 5, 4, "\x07\xd0\x07\xd0");  // 2000 x 2000
  EXPECT_THAT(refusal(bytes), HasSubstr("expected a whole JPEG"));
  bytes.replace(frame + 5, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(header_refusal(bytes), HasSubstr("65535 x 65535"));
  EXPECT_NE(refusal(bytes), "");
  bytes.replace(frame + 5, 4, std::string("\0\x09\0\0", 4));
  EXPECT_NE(header_refusal(bytes), "");
  EXPECT_NE(refusal(bytes), "");
}

TEST_F(ImageFile, ATextThatInflatesWithoutEndIsLeftOut) {
  // 64 MiB of zeros in a compressed text chunk: ignored, not inflated; the picture after it decodes.
  const std::string whole = from_base64(tests::png_base64);
  std::string packed(1 << 20, '\0');
  uLongf size = packed.size();
  const std::string zeros(64 << 20, '\0');
  ASSERT_EQ(compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                      reinterpret_cast<const Bytef*>(zeros.data()), zeros.size(), 9),
            Z_OK);
  packed.resize(size);
  const std::string bomb = chunk("zTXt" + std::string("key\0\0", 5) + packed);
  const Pixels pixels = decode_image(whole.substr(0, 33) + bomb + whole.substr(33), "bomb");
  EXPECT_EQ(pixels.rgb, decode_image(whole, "plain").rgb);
}

TEST_F(ImageFile, OfSixteenBitsTheUpperEightAreTaken) {
  const std::string row("\0\x12\x34\x56\x78\x9a\xff", 7);
  std::string packed(100, '\0');
  uLongf size = packed.size();
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                     reinterpret_cast<const Bytef*>(row.data()), row.size()),
            Z_OK);
  const Pixels pixels = decode_image(png_of(1, 1, chunk("IDAT" + packed.substr(0, size)), 16), "x");
  EXPECT_EQ(pixels.rgb, (std::vector<std::uint8_t>{0x12, 0x56, 0x9a}));
}

TEST_F(ImageFile, ProgressiveScansWithoutEndAreRefused) {
  const std::string whole = from_base64(tests::progressive_base64);
  const std::size_t first = whole.find("\xff\xda"), next = whole.find("\xff\xc4", first);
  ASSERT_LT(first, next);
  ASSERT_NE(next, whole.npos);
  const auto repeated = [&](int times) {
    std::string bytes = whole.substr(0, next);
    for (int i = 0; i < times; ++i) bytes += whole.substr(first, next - first);
    return bytes + whole.substr(next);
  };
  EXPECT_EQ(refusal(repeated(10)), "");
  EXPECT_THAT(refusal(repeated(600)), HasSubstr("more than 500 scans"));
}

TEST_F(ImageFile, ManyRefusalsLeaveNothingBehind) {
  // A decoder that is not freed would hold tens of kilobytes each.
  const std::string jpeg = from_base64(tests::jpeg_base64), png = from_base64(tests::png_base64);
  const auto resident = [] {
    return std::stol(read_text("/proc/self/statm").substr(read_text("/proc/self/statm").find(' ')));
  };
  const auto refuse = [&](int times) {
    for (int i = 0; i < times; ++i) {
      EXPECT_NE(error_of([&] { (void)decode_image(jpeg.substr(0, jpeg.size() - 20), "x"); }), "");
      EXPECT_NE(error_of([&] { (void)decode_image(png.substr(0, png.size() - 20), "x"); }), "");
    }
  };
  refuse(100);
  const long before = resident();
  refuse(3000);
  EXPECT_LT(resident() - before, 2000);  // pages of 4 KiB
}

}  // namespace
}  // namespace bitrift::nn::image_file_test
