// The file beside a checkpoint that holds digests of its blocks, and parity.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/file_run.h"
#include "integrity/seal/tolerant_files.h"

namespace bitrift::integrity {

constexpr std::uint64_t seal_block_bytes = 4096;

/// How bytes are cut into blocks, and blocks into stripes. Block `row * stripes() + stripe` belongs to
/// `stripe`, so blocks of one stripe are as far apart as possible, and long damage hits many stripes once. A
/// block beyond the end, and the rest of the last block, are zeros.
struct SealShape {
  std::uint64_t bytes = 0;
  unsigned data_rows = 0;  ///< blocks of a stripe: at most, if the file has fewer
  unsigned parity_rows = 0;

  [[nodiscard]] std::uint64_t blocks() const noexcept {
    return (bytes + seal_block_bytes - 1) / seal_block_bytes;
  }
  [[nodiscard]] std::uint64_t stripes() const noexcept { return (blocks() + data_rows - 1) / data_rows; }
  [[nodiscard]] std::uint64_t parity_blocks() const noexcept { return stripes() * parity_rows; }
  [[nodiscard]] std::uint64_t block(unsigned row, std::uint64_t stripe) const noexcept {
    return row * stripes() + stripe;
  }
};

/// What a seal states about the files.
struct SealHead {
  FileList files;  ///< with their sizes, if there are several
  SealShape shape;
};

/// Writes a seal into an empty file: parity, in any order and from any thread; then the rest.
class SealWriter {
 public:
  SealWriter(const std::filesystem::path& file, const SealHead& head);
  /// `blocks` blocks of a parity row, from `stripe` on. Throws Error(io).
  void write_parity(unsigned row, std::uint64_t stripe, std::uint64_t blocks, const std::uint8_t* data) const;
  /// The digests of all blocks, then of all parity blocks, row by row. Throws Error(io).
  void finish(const std::vector<std::uint64_t>& digests) const;

 private:
  std::filesystem::path path_;
  FileDescriptor fd_;
  SealShape shape_;
  std::string text_;
};

/// A seal that is read. Head and digests are stored twice, and each page of digests has a digest of its own,
/// so damage of a seal is noticed, and rarely hurts.
class SealFile {
 public:
  /// `root`: the file or folder that was sealed. Throws Error(not_found | io), Error(bad_file) if both copies
  /// of a part are damaged, Error(unsupported) for a seal of another version.
  SealFile(const std::filesystem::path& seal, const std::filesystem::path& root);

  [[nodiscard]] const SealHead& head() const noexcept { return head_; }
  [[nodiscard]] const SealShape& shape() const noexcept { return head_.shape; }
  /// The digests of the blocks, then those of the parity blocks, row by row.
  [[nodiscard]] const std::vector<std::uint64_t>& digests() const noexcept { return digests_; }
  /// Whether a copy of the head or of a page is damaged.
  [[nodiscard]] bool damaged() const noexcept { return damaged_; }
  /// Missing bytes are read as zeros. Thread-safe. Throws Error(io).
  void read_parity(unsigned row, std::uint64_t stripe, std::uint64_t blocks, std::uint8_t* out) const;

 private:
  void read_head(const std::filesystem::path& root);
  void read_digests();

  TolerantFiles file_;
  SealHead head_;
  std::uint64_t head_bytes_ = 0;
  std::vector<std::uint64_t> digests_;
  bool damaged_ = false;
};

}  // namespace bitrift::integrity
