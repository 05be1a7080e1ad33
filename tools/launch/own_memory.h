// Files in the driver's memory, which the ranks that it started on the same machine open.
#pragma once

#include <string>

namespace bitrift::cli {

/// The path by which another process of this user finds what this one has open: memory of memfd_create(2).
/// Nothing is left behind, whichever process is killed.
[[nodiscard]] std::string own_memory(int file);
/// Whether the path leads to memory of this name. On another machine, it may lead to anything.
[[nodiscard]] bool is_own_memory(const char* path, const char* name) noexcept;

}  // namespace bitrift::cli
