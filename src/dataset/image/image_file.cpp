#include "dataset/image/image_file.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/file.h"
#include "dataset/image/jpeg.h"
#include "dataset/image/pixels.h"
#include "dataset/image/png.h"

namespace bitrift::nn {
namespace {

constexpr std::string_view png_magic("\x89PNG\r\n\x1a\n", 8), jpeg_magic("\xff\xd8\xff", 3);
constexpr std::uint64_t max_file_bytes = std::uint64_t{256} << 20;

[[noreturn]] void refuse_image(const std::string& name, std::string_view found) {
  fail(ErrorCode::bad_file, "{}: expected a whole JPEG or PNG image, found {}: replace or remove it", name,
       found);
}

// A small window that moves over a file, so that a header costs one or two reads.
class FileWindow {
 public:
  explicit FileWindow(const std::filesystem::path& path) : path_(path), fd_(open_file(path, O_RDONLY)) {
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0 || !S_ISREG(status.st_mode))
      refuse_image(path.string(), "not a regular file");
    size_ = static_cast<std::uint64_t>(status.st_size);
    if (size_ > max_file_bytes) refuse_image(path.string(), "a file of more than 256 MiB");
  }
  [[nodiscard]] std::uint64_t size() const { return size_; }

  // `count` <= 4096 bytes at `offset`, fewer at the end of the file.
  std::string_view bytes(std::uint64_t offset, std::size_t count) {
    if (offset >= size_) return {};
    count = static_cast<std::size_t>(std::min<std::uint64_t>(count, size_ - offset));
    if (offset < start_ || offset + count > start_ + filled_) {
      start_ = offset;
      filled_ = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), size_ - offset));
      read_at(fd_, buffer_.data(), filled_, offset, path_);
    }
    return {buffer_.data() + (offset - start_), count};
  }

 private:
  const std::filesystem::path& path_;
  FileDescriptor fd_;
  std::uint64_t size_ = 0, start_ = 0;
  std::size_t filled_ = 0;
  std::array<char, 4096> buffer_{};
};

std::uint32_t number(std::string_view bytes) {  // big-endian
  std::uint32_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<std::uint8_t>(c);
  return value;
}

ImageSize png_header(FileWindow& file, const std::string& name) {
  const std::string_view header = file.bytes(0, 26);
  if (header.size() < 26 || header.substr(8, 8) != std::string_view("\0\0\0\rIHDR", 8)) {
    refuse_image(name, "a damaged PNG header");
  }
  const std::uint32_t width = number(header.substr(16, 4)), height = number(header.substr(20, 4));
  const ImageSize size{width, height};
  check_image_size(size, name);
  constexpr std::array<int, 7> samples{1, 0, 3, 1, 2, 0, 4};  // by colour type
  const auto depth = static_cast<std::uint8_t>(header[24]), colour = static_cast<std::uint8_t>(header[25]);
  if (colour >= samples.size() || samples[colour] == 0) refuse_image(name, "a damaged PNG header");
  check_png_packing(size, samples[colour] * depth, file.size(), name);
  return size;
}

// The contents of a start-of-frame segment: its precision, height, width and number of components.
ImageSize jpeg_frame(std::uint8_t marker, std::string_view content, const std::string& name) {
  if (content.size() < 6) refuse_image(name, "a truncated JPEG header");
  if (marker != 0xC0 && marker != 0xC1 && marker != 0xC2 && marker != 0xC9 && marker != 0xCA) {
    fail(ErrorCode::unsupported, "{}: lossless and hierarchical JPEG are not supported: convert it", name);
  }
  if (content[0] != 8) fail(ErrorCode::unsupported, "{}: only 8-bit JPEG is supported: convert it", name);
  if (content[5] != 1 && content[5] != 3) {
    fail(ErrorCode::unsupported,
         "{}: only JPEG in grey or with 3 colour components is supported, not {} (CMYK): convert it", name,
         static_cast<int>(static_cast<std::uint8_t>(content[5])));
  }
  const std::uint32_t height = number(content.substr(1, 2)), width = number(content.substr(3, 2));
  const ImageSize size{width, height};
  check_image_size(size, name);
  return size;
}

ImageSize jpeg_header(FileWindow& file, const std::string& name) {
  std::uint64_t at = 2;
  for (;;) {
    const std::string_view head = file.bytes(at, 10);
    if (head.size() < 4) refuse_image(name, "a JPEG that ends within its header");
    if (head[0] != '\xff') refuse_image(name, "a damaged JPEG header");
    const auto marker = static_cast<std::uint8_t>(head[1]);
    if (marker == 0xFF) {  // padding bytes before a marker
      ++at;
      continue;
    }
    if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7)) {  // markers without content
      at += 2;
      continue;
    }
    if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC) {
      return jpeg_frame(marker, head.substr(4), name);
    }
    const std::uint32_t length = number(head.substr(2, 2));
    if (length < 2 || marker == 0xD9 || marker == 0xDA) refuse_image(name, "a JPEG without a frame header");
    at += 2 + length;
  }
}

// Both formats end with a mark that cannot occur earlier in the picture's data.
bool ends_as_it_should(FileWindow& file, bool png) {
  const std::uint64_t tail = std::min<std::uint64_t>(file.size(), 4096);
  const std::string_view end = file.bytes(file.size() - tail, static_cast<std::size_t>(tail));
  return end.find(png ? std::string_view("IEND\xae\x42\x60\x82") : std::string_view("\xff\xd9")) != end.npos;
}

}  // namespace

ImageSize check_image_header(const std::filesystem::path& path) {
  const std::string name = path.string();
  FileWindow file(path);
  const std::string_view head = file.bytes(0, 8);
  const bool png = head == png_magic;
  if (!png && !head.starts_with(jpeg_magic)) refuse_image(name, "neither format");
  const ImageSize size = png ? png_header(file, name) : jpeg_header(file, name);
  // Other programs append their own data to an image: only decoding distinguishes that from a missing end.
  if (!ends_as_it_should(file, png)) (void)decode_image(path);
  return size;
}

Pixels decode_image(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::file_size(path, code) > max_file_bytes && !code) {
    refuse_image(path.string(), "a file of more than 256 MiB");
  }
  return decode_image(read_text(path), path.string());
}

Pixels decode_image(std::string_view content, const std::string& name) {
  if (content.starts_with(png_magic)) return decode_png(content, name);
  if (content.starts_with(jpeg_magic)) return decode_jpeg(content, name);
  refuse_image(name, "neither format");
}

}  // namespace bitrift::nn
