// Compares files with their seal, and calculates lost blocks from the parity.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/file_run.h"
#include "integrity/seal/seal_file.h"

namespace bitrift::integrity {

/// A file, sealed with another size, or gone.
struct ResizedFile {
  std::string name;  ///< relative to the folder; "" if there is one file
  std::uint64_t sealed_bytes = 0;
  std::optional<std::uint64_t> bytes;  ///< now
};

/// The result of comparing files with their seal.
struct SealCheck {
  std::filesystem::path file;  ///< the seal
  std::string unusable;        ///< one line: why the seal cannot be used; then nothing of the rest is known
  bool seal_damaged = false;   ///< a part of the seal is, which leaves enough of it
  SealHead head;
  std::vector<std::uint64_t> damaged;         ///< blocks, ascending
  std::vector<std::uint64_t> damaged_parity;  ///< blocks of parity, row by row, ascending
  std::vector<ResizedFile> resized;
  /// Damaged blocks of stripes with too little parity that have their digest again when this bit of them is
  /// flipped: bit 0 is the least significant one of the first byte.
  std::map<std::uint64_t, unsigned> flipped;
  std::uint64_t lost = 0;  ///< other damaged blocks of stripes that have more of them than sound parity

  /// Whether every byte of the files is as it was sealed.
  [[nodiscard]] bool sound() const noexcept { return unusable.empty() && damaged.empty() && resized.empty(); }
  [[nodiscard]] bool repairable() const noexcept { return unusable.empty() && !sound() && lost == 0; }
};

/// Damaged blocks that follow each other in a file.
struct DamagedRange {
  std::string file;  ///< relative to the folder; "" if there is one file
  std::uint64_t first = 0, bytes = 0;
};
[[nodiscard]] std::vector<DamagedRange> damaged_ranges(const SealCheck& check);

/// The check of a checkpoint that has a seal beside it (seal_path()); nullopt if it has none. Throws
/// Error(io), and Error(unsupported) for a seal of another version.
[[nodiscard]] std::optional<SealCheck> check_seal(const std::filesystem::path& checkpoint);

/// The same of the seal `file` and other files: those in the folder `root`, or the file `root`.
[[nodiscard]] SealCheck compare_with_seal(const std::filesystem::path& file,
                                          const std::filesystem::path& root);

/// Bytes that are calculated: at most the blocks of some stripes, in any order.
using WriteBytes = std::function<void(const std::uint8_t* data, std::uint64_t bytes, std::uint64_t offset)>;

/// Calculates every damaged block from the sound ones and the parity, or by its flipped bit, and passes it to
/// `write`; offsets count through all files, as they were sealed. `check` must be repairable. Throws
/// Error(conflict) if a block that comes out does not have its digest, Error(io), and what `write` throws.
void rebuild_blocks(const SealCheck& check, const WriteBytes& write);

}  // namespace bitrift::integrity
