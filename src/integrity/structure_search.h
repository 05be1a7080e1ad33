// A flipped bit in the structure of a zip archive.
#pragma once

#include <filesystem>

#include "integrity/explanation.h"

namespace bitrift::integrity {

/// For an archive whose directory cannot be read: tries each bit of what looks like a part of its structure,
/// up to 10^8 headers in all. With the right one, headers and directory agree, every sum fits, and the pickle
/// finds its members. Throws Error(not_found | io).
[[nodiscard]] Explanation explain_structure(const std::filesystem::path& file);

}  // namespace bitrift::integrity
