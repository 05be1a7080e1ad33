// New stored bytes for chunks, and the other bytes of the file that must change with them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "h5map/chunk/chunk_table.h"
#include "h5map/structure/source.h"
#include "h5map/structure/storage_layout.h"
#include "h5map/structure/superblock.h"

namespace bitrift::h5map {

/// The bytes to write to a file, by their offset; none overlap.
using NewBytes = std::map<std::uint64_t, std::vector<std::uint8_t>>;

/// Collects alterations of one file and returns the bytes to write: chunks that keep their size or shrink
/// stay where they are, with a new size in their index; larger ones are appended to the file, and their old
/// bytes become unused. The checksums of all altered structures are updated last, each once. The file itself
/// is only read. The source must outlive it.
class Rewrite {
 public:
  Rewrite(const Source& source, const Superblock& superblock);

  /// Writes bytes in place. Throws Error(conflict) when some of them were already written, as when two chunks
  /// share their bytes; Error(bad_file) when some lie outside the file.
  void put(std::uint64_t offset, std::span<const std::uint8_t> bytes);
  /// Writes a little-endian number into a field and its checksum after it. Throws also Error(unsupported)
  /// when the number does not fit.
  void put(const Field& field, std::uint64_t value);
  /// Notes that a checksum covers bytes that were written.
  void touch(const Seal& seal) { seals_.insert(seal); }
  /// Gives a chunk new stored bytes and a new filter mask. Throws also Error(unsupported) when its index
  /// cannot express their size, and when they are more in a file that keeps lists of its free space.
  void put_chunk(const ChunkTable& table, const Chunk& chunk, std::vector<std::uint8_t> stored,
                 std::uint32_t mask);

  /// All changes; those beyond the old end of the file lengthen it.
  [[nodiscard]] NewBytes finish();
  /// Size of the file with the changes made.
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return end_; }

 private:
  void insert(std::uint64_t offset, std::vector<std::uint8_t> bytes);
  [[nodiscard]] std::vector<std::uint8_t> altered(std::uint64_t first, std::uint64_t end) const;

  const Source* source_;
  Superblock superblock_;
  std::uint64_t end_ = 0;
  NewBytes changes_;
  std::set<Seal> seals_;
};

}  // namespace bitrift::h5map
