// A decoded picture, and the limit of its size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bitrift::nn {

struct ImageSize {
  std::int64_t width = 0, height = 0;
};

/// 8-bit RGB, rows from the top.
struct Pixels {
  ImageSize size;
  std::vector<std::uint8_t> rgb;  ///< height x width x 3
};

/// More pixels than this are refused.
inline constexpr std::int64_t max_image_pixels = std::int64_t{64} * 1024 * 1024;

/// Throws for a size that no image may have, as check_image_header() does.
void check_image_size(ImageSize size, const std::string& name);

}  // namespace bitrift::nn
