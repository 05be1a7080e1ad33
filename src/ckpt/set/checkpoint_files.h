// A checkpoint as files on the disk: one, or a folder with all that is in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace bitrift::ckpt {

/// The file; of a folder, or of an index in one (root_of_set()), all files in it and in its folders, sorted.
/// Links to folders are not followed. Throws Error(not_found | io).
[[nodiscard]] std::vector<std::filesystem::path> files_of(const std::filesystem::path& checkpoint);

/// digest_file() of a file. For a folder, the digest of the lines "NAME\tDIGEST\n" of files_of(), with names
/// relative to the folder. Throws as files_of() does.
[[nodiscard]] std::string digest_of(const std::filesystem::path& checkpoint);

/// The size of all files together. Throws as files_of() does.
[[nodiscard]] std::uint64_t bytes_of(const std::filesystem::path& checkpoint);

/// Makes a folder whose files are symbolic links to those of a checkpoint's folder: no bytes are copied.
/// Throws Error(not_found | io).
void link_folder(const std::filesystem::path& folder, const std::filesystem::path& links);

}  // namespace bitrift::ckpt
