// A checkpoint on disk: one file, or a folder of files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace bitrift::study {

/// All files by the name that BitFault::file has: "" for a single file, else the path below the folder.
[[nodiscard]] std::map<std::string, std::filesystem::path> saved_files(const std::filesystem::path& path);
/// Copies a file, or a folder with all its files, over whatever is at `to`. Throws Error(io).
void copy_saved(const std::filesystem::path& from, const std::filesystem::path& to);
/// The bytes of all of them.
[[nodiscard]] std::uint64_t saved_bytes(const std::filesystem::path& path);

}  // namespace bitrift::study
