#include "dataset/image/jpeg.h"

#include <array>
#include <csetjmp>
#include <cstdio>

// These two need <cstdio> before them.
#include <jerror.h>
#include <jpeglib.h>

#include "core/error.h"

// JPEG by libjpeg-turbo. The library returns by longjmp, which runs no destructors: the functions that call
// it own nothing, and all owners are in their caller.

namespace bitrift::nn {
namespace {

// A progressive file may ask for any number of passes over a large picture.
constexpr int max_scans = 500;

struct JpegDecoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf escape{};
  std::array<char, JMSG_LENGTH_MAX> message{};

  JpegDecoder() = default;
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;
  ~JpegDecoder() { jpeg_destroy_decompress(&info); }
};

[[noreturn]] void leave_jpeg(j_common_ptr info) {
  auto* decoder = static_cast<JpegDecoder*>(info->client_data);
  info->err->format_message(info, decoder->message.data());
  std::longjmp(decoder->escape, 1);
}

// A warning about missing or broken data means that pixels were made up; other warnings concern marks that do
// not affect the picture.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
      leave_jpeg(info);
    default:
      break;
  }
}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= max_scans) return;
  auto* decoder = static_cast<JpegDecoder*>(info->client_data);
  std::snprintf(decoder->message.data(), decoder->message.size(), "more than %d scans", max_scans);
  std::longjmp(decoder->escape, 1);
}

bool read_jpeg_header(JpegDecoder& decoder, const unsigned char* data, unsigned long size) {
  if (setjmp(decoder.escape) != 0) return false;
  decoder.info.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = leave_jpeg;
  decoder.errors.emit_message = on_message;
  decoder.info.client_data = &decoder;
  jpeg_create_decompress(&decoder.info);
  decoder.progress.progress_monitor = on_progress;
  decoder.info.progress = &decoder.progress;
  jpeg_mem_src(&decoder.info, data, size);
  jpeg_read_header(&decoder.info, TRUE);
  return true;
}

bool read_jpeg_pixels(JpegDecoder& decoder, unsigned char* out) {
  if (setjmp(decoder.escape) != 0) return false;
  decoder.info.out_color_space = JCS_RGB;
  decoder.info.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&decoder.info);
  while (decoder.info.output_scanline < decoder.info.output_height) {
    JSAMPROW row =
        out + static_cast<std::size_t>(decoder.info.output_scanline) * decoder.info.output_width * 3;
    jpeg_read_scanlines(&decoder.info, &row, 1);
  }
  jpeg_finish_decompress(&decoder.info);
  return true;
}

[[noreturn]] void refuse_jpeg(const JpegDecoder& decoder, const std::string& name) {
  fail(ErrorCode::bad_file, "{}: expected a whole JPEG image, found: {}; replace or remove it", name,
       decoder.message.data());
}

}  // namespace

Pixels decode_jpeg(std::string_view content, const std::string& name) {
  JpegDecoder decoder;
  if (!read_jpeg_header(decoder, reinterpret_cast<const unsigned char*>(content.data()), content.size())) {
    refuse_jpeg(decoder, name);
  }
  if (decoder.info.num_components != 1 && decoder.info.num_components != 3) {
    fail(ErrorCode::unsupported,
         "{}: only JPEG in grey or with 3 colour components is supported, not {} (CMYK): convert it", name,
         decoder.info.num_components);
  }
  Pixels pixels;
  pixels.size = {decoder.info.image_width, decoder.info.image_height};
  check_image_size(pixels.size, name);
  pixels.rgb.resize(static_cast<std::size_t>(pixels.size.width * pixels.size.height * 3));
  if (!read_jpeg_pixels(decoder, pixels.rgb.data())) refuse_jpeg(decoder, name);
  return pixels;
}

}  // namespace bitrift::nn
