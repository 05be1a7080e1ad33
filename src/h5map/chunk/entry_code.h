// How the entries of an array of chunks are encoded.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "h5map/chunk/entry.h"
#include "h5map/structure/block.h"
#include "h5map/structure/source.h"
#include "h5map/structure/storage_layout.h"

namespace bitrift::h5map {

/// How the entries of such an array are encoded: an address alone, or address, stored size and filter mask.
struct EntryCode {
  Frame frame;
  unsigned entry_bytes = 0;
  bool filtered = false;

  /// Width of the size of a filtered entry: HDF5 uses 1 + (log2(bytes of a chunk) + 8) / 8, at most 8; the
  /// size of an entry in the file shows it.
  [[nodiscard]] unsigned size_bytes() const noexcept { return entry_bytes - frame.offset_bytes - 4; }
  /// Reads the entry at position `at` of `block`.
  [[nodiscard]] ChunkEntry decode(const Source& source, const Block& block, std::uint64_t at) const;
  /// Throws Error(bad_file) when `client` (0: plain, 1: filtered) and the size of an entry contradict each
  /// other or the needs of the dataset.
  void check(const Source& source, unsigned client, bool needs_filtered, const char* what) const;
};

}  // namespace bitrift::h5map
