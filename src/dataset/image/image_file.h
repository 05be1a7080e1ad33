// Reads JPEG and PNG files as RGB pixels; malformed ones are refused with a one-line error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/image/pixels.h"

namespace bitrift::nn {

/// Reads an image's size from its header and checks its end, with a few small reads. The content decides
/// between JPEG and PNG, not the name. Throws Error(not_found | io), Error(bad_file) that names the file
/// (neither format, truncated, a size of 0 or one that the file is too short for, a damaged header) and
/// Error(unsupported): more than max_image_pixels, CMYK, 12-bit or lossless JPEG.
[[nodiscard]] ImageSize check_image_header(const std::filesystem::path& path);

/// Decodes a file as RGB: grey is repeated, palettes are looked up, alpha is dropped, and of 16 bits the
/// upper 8 are used; colour profiles, gamma and orientation marks are ignored. The result equals that of
/// Pillow's Image.open(path).convert("RGB"), except for 16-bit grey. Throws as check_image_header does, and
/// Error(bad_file) for data that are truncated or corrupt anywhere.
[[nodiscard]] Pixels decode_image(const std::filesystem::path& path);

/// The same for bytes in memory; messages use `name`.
[[nodiscard]] Pixels decode_image(std::string_view content, const std::string& name);

}  // namespace bitrift::nn
