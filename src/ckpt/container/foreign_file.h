// Files that are not checkpoints of a format that bitrift reads, but that people take for one.
#pragma once

#include <filesystem>
#include <string>

namespace bitrift::ckpt {

/// Says what a file or folder is and what to do instead, as the end of a sentence: "a GGUF file; ...". A file
/// is known by its first bytes, a folder by what it holds. "" for everything else, and for what cannot be
/// read.
[[nodiscard]] std::string what_else_it_is(const std::filesystem::path& path);

}  // namespace bitrift::ckpt
