// PNG files as RGB pixels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dataset/image/pixels.h"

namespace bitrift::nn {

/// Decodes bytes in memory, as decode_image() does; `name` is for messages.
[[nodiscard]] Pixels decode_png(std::string_view content, const std::string& name);

/// A decoded picture can have at most 1032 times the bytes of the file, the limit of Deflate. Throws
/// Error(bad_file).
void check_png_packing(ImageSize size, int bits_per_pixel, std::uint64_t file_bytes, const std::string& name);

}  // namespace bitrift::nn
