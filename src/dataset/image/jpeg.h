// JPEG files as RGB pixels.
#pragma once

#include <string>
#include <string_view>

#include "dataset/image/pixels.h"

namespace bitrift::nn {

/// Decodes bytes in memory, as decode_image() does; `name` is for messages.
[[nodiscard]] Pixels decode_jpeg(std::string_view content, const std::string& name);

}  // namespace bitrift::nn
