// A folder that belongs to one campaign or study, and to one program at a time.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "core/file.h"

namespace bitrift::campaign {

/// Creates parents too; an existing folder is fine. Throws Error(io).
void make_folder(const std::filesystem::path& path);
/// Locks a file in `root`, which is created. Throws Error(busy) that names `command` if another program has
/// locked it.
[[nodiscard]] FileDescriptor lock_folder(const std::filesystem::path& root, const std::filesystem::path& lock,
                                         const std::string& command);
/// Throws Error(bad_input) where `root` is not a folder, or holds no `identity` but other entries than
/// `ours`. Those in `ours` are what a start leaves that was killed before it wrote the identity.
void refuse_foreign(const std::filesystem::path& root, const std::filesystem::path& identity,
                    const std::set<std::string>& ours);

}  // namespace bitrift::campaign
