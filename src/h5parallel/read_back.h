// Checks whether a written file holds the expected tensors.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "ckpt/reader.h"

namespace bitrift::h5parallel {

/// Compares the tensors of a file with those of its source, checksums and attributes aside, and returns how
/// they first differ: "'model/w' has other values". Read by bitrift's own reader, which shares no code with
/// the library that wrote the file. Throws Error where one of them cannot be read.
[[nodiscard]] std::optional<std::string> difference(const ckpt::Reader& source,
                                                    const std::filesystem::path& written);

}  // namespace bitrift::h5parallel
