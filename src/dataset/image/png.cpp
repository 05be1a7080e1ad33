#include "dataset/image/png.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <png.h>

#include "core/error.h"

// PNG by libpng. The library returns by longjmp, which runs no destructors: the functions that call it own
// nothing, and all owners are in their caller.

namespace bitrift::nn {
namespace {

struct PngDecoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string_view content;
  std::size_t position = 0;
  std::array<char, 200> message{};
  ImageSize size;
  int bits_per_pixel = 0, passes = 1;

  PngDecoder() = default;
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;
  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void leave_png(png_structp png, png_const_charp text) {
  auto* decoder = static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::snprintf(decoder->message.data(), decoder->message.size(), "%s", text);
  png_longjmp(png, 1);
}

void ignore(png_structp /*png*/, png_const_charp /*text*/) {}

void take(png_structp png, png_bytep out, std::size_t count) {
  auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (count > decoder->content.size() - decoder->position) png_error(png, "the end of the file");
  std::memcpy(out, decoder->content.data() + decoder->position, count);
  decoder->position += count;
}

bool read_png_header(PngDecoder& decoder) {
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, leave_png, ignore);
  if (decoder.png == nullptr) return false;
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) return false;
  png_set_read_fn(decoder.png, &decoder, take);
  // Texts and profiles are compressed too: the limit of what one of them may inflate to.
  png_set_chunk_malloc_max(decoder.png, png_alloc_size_t{8} << 20);
  png_read_info(decoder.png, decoder.info);
  decoder.size = {png_get_image_width(decoder.png, decoder.info),
                  png_get_image_height(decoder.png, decoder.info)};
  decoder.bits_per_pixel =
      png_get_channels(decoder.png, decoder.info) * png_get_bit_depth(decoder.png, decoder.info);
  return true;
}

bool set_up(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_strip_16(decoder.png);
  png_set_expand(decoder.png);  // palettes, and grey of fewer than 8 bits
  png_set_gray_to_rgb(decoder.png);
  png_set_strip_alpha(decoder.png);
  decoder.passes = png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  return true;
}

bool read_png_pixels(PngDecoder& decoder, png_bytep out, std::size_t row_bytes) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  for (int pass = 0; pass < decoder.passes; ++pass) {
    for (std::int64_t y = 0; y < decoder.size.height; ++y) {
      png_read_row(decoder.png, out + static_cast<std::size_t>(y) * row_bytes, nullptr);
    }
  }
  png_read_end(decoder.png, nullptr);
  return true;
}

[[noreturn]] void refuse_png(const PngDecoder& decoder, const std::string& name) {
  fail(ErrorCode::bad_file, "{}: expected a whole PNG image, found: {}; replace or remove it", name,
       decoder.message[0] == '\0' ? "libpng cannot start" : decoder.message.data());
}

}  // namespace

Pixels decode_png(std::string_view content, const std::string& name) {
  PngDecoder decoder;
  decoder.content = content;
  if (!read_png_header(decoder)) refuse_png(decoder, name);
  check_image_size(decoder.size, name);
  check_png_packing(decoder.size, decoder.bits_per_pixel, content.size(), name);
  if (!set_up(decoder)) refuse_png(decoder, name);
  const std::size_t row_bytes = png_get_rowbytes(decoder.png, decoder.info);
  if (row_bytes != static_cast<std::size_t>(decoder.size.width) * 3) {
    fail(ErrorCode::internal, "{}: libpng gives rows of {} bytes for {} pixels", name, row_bytes,
         decoder.size.width);
  }
  Pixels pixels;
  pixels.size = decoder.size;
  pixels.rgb.resize(row_bytes * static_cast<std::size_t>(decoder.size.height));
  if (!read_png_pixels(decoder, pixels.rgb.data(), row_bytes)) refuse_png(decoder, name);
  return pixels;
}

void check_png_packing(ImageSize size, int bits_per_pixel, std::uint64_t file_bytes,
                       const std::string& name) {
  const auto bytes = static_cast<std::uint64_t>((size.width * bits_per_pixel + 7) / 8 * size.height);
  if (bytes / 1032 > file_bytes) {
    fail(ErrorCode::bad_file,
         "{}: expected a size that fits a file of {} bytes, found {} x {} pixels: replace it", name,
         file_bytes, size.width, size.height);
  }
}

}  // namespace bitrift::nn
