// An entry for one chunk in an index of chunks.
#pragma once

#include <cstdint>
#include <functional>

#include "h5map/structure/seal.h"

namespace bitrift::h5map {

/// One entry, as the file has it.
struct ChunkEntry {
  std::uint64_t offset = 0;    ///< of the chunk in the file, user block included; `undefined`: none stored
  std::uint64_t bytes = 0;     ///< stored; 0 where the index does not say
  std::uint32_t mask = 0;      ///< bit i: filter i of the pipeline was skipped
  std::uint64_t entry_at = 0;  ///< of the entry in the file, user block included
  Seal seal;                   ///< of the structure that holds the entry; {0, 0} if it has no checksum
};

/// Takes the number of an entry in an array and the entry.
using SlotVisitor = std::function<void(std::uint64_t slot, const ChunkEntry& entry)>;

}  // namespace bitrift::h5map
