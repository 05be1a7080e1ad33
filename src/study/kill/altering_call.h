// System calls that alter files, as ptrace(2) shows them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <sys/types.h>

namespace bitrift::study {

/// A system call that is about to be made.
struct SystemCall {
  std::uint64_t number = 0;
  std::array<std::uint64_t, 6> arguments = {};
};

/// A call that alters something in or below a folder.
struct AlteringCall {
  std::string name;         ///< "pwrite64"
  std::uint64_t bytes = 0;  ///< number of bytes of write(2) or pwrite(2); 0 for all others
  bool aside = false;       ///< another thread or process made it than the first one; altering_call(): false
  bool operator==(const AlteringCall&) const = default;
};

/// nullopt: the call alters nothing there. Writes, changes of a size, new, renamed, linked and removed names,
/// and mappings through which a file can be written count; fsync(2) does not, since no process sees its
/// effect. thread: it makes the call and is stopped. folder: absolute and without links.
[[nodiscard]] std::optional<AlteringCall> altering_call(pid_t thread, const SystemCall& call,
                                                        const std::filesystem::path& folder);

}  // namespace bitrift::study
