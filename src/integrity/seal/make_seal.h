// Seals a checkpoint: writes digests of its blocks, and parity, beside it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "integrity/seal/seal_file.h"

namespace bitrift::integrity {

struct SealOptions {
  double percent = 1;    ///< parity, of the bytes of the files: least_percent to 100
  bool replace = false;  ///< a seal that is there already
};
constexpr double least_percent = 0.4;  // one parity row for 250

/// PATH.seal, or DIR.seal for a folder or for an index in one.
[[nodiscard]] std::filesystem::path seal_path(const std::filesystem::path& checkpoint);

struct MadeSeal {
  std::filesystem::path file;
  std::uint64_t bytes = 0;
  SealHead head;
};

/// Seals a file, or all files of a folder, as they are now; whether they are damaged already, verify() says.
/// The seal takes its name when it is complete and on the disk. Throws Error(bad_input) for a share out of
/// range, for files without bytes, and if there is a seal that is not to be replaced; Error(not_found | io |
/// unsupported); Error(conflict) if a file changes in the meantime.
MadeSeal make_seal(const std::filesystem::path& checkpoint, const SealOptions& options);

}  // namespace bitrift::integrity
