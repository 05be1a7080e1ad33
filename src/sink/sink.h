// How the bytes of a file are written to disk.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace bitrift::ckpt {

/// One file that is being written to disk. It is written under a temporary name in the folder of its target;
/// commit() gives it the target's name. If the process is killed at any moment, the target is the previous
/// file or the new one, whole. A temporary file that a killed process leaves is removed by the next sink of
/// the same target. All calls throw Error(io) that names the target: full disk, quota, a folder that cannot
/// be written, a disk that fails. After an error only the destructor may be called.
class Sink {
 public:
  Sink() = default;
  virtual ~Sink() = default;  ///< without commit() nothing is left behind, and the previous file is untouched
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  /// Creates the temporary file: `size` bytes, all zero. Called once, before all other calls.
  virtual void begin(std::uint64_t size) = 0;
  /// Writes within that size, in any order; each byte at most once.
  virtual void write(std::uint64_t offset, std::span<const std::uint8_t> bytes) = 0;
  /// Waits until the disk has all bytes, renames, and waits until the folder has the new name.
  virtual void commit() = 0;
  [[nodiscard]] virtual const std::filesystem::path& target() const noexcept = 0;
};

/// The number of bytes that are written at once. Larger writes are slower: the kernel then copies from memory
/// that has left the processor's cache.
constexpr std::size_t piece_bytes = std::size_t{1} << 18;

/// Calls piece(offset, bytes) for consecutive parts of `bytes`, divided where the offset in the file is a
/// multiple of piece_bytes.
template <typename Piece>
void for_each_piece(std::uint64_t offset, std::span<const std::uint8_t> bytes, const Piece& piece) {
  while (!bytes.empty()) {
    const std::size_t length = std::min<std::size_t>(bytes.size(), piece_bytes - offset % piece_bytes);
    piece(offset, bytes.first(length));
    bytes = bytes.subspan(length);
    offset += length;
  }
}

}  // namespace bitrift::ckpt
