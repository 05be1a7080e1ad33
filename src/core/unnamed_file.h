// File descriptors that do not come from open(2).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/file.h"

namespace bitrift {

/// A file without a name, in memory, that holds these bytes; `name` is for messages. Throws Error(io).
[[nodiscard]] FileDescriptor memory_file(std::span<const std::uint8_t> bytes, const std::string& name);
/// A second descriptor of the same open file; none of none. Throws Error(io) that names the path.
[[nodiscard]] FileDescriptor duplicate(const FileDescriptor& fd, const std::string& path);

}  // namespace bitrift
