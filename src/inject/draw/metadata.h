// Faults in HDF5's own structures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ckpt/reader.h"
#include "inject/draw/planned.h"
#include "record/fault/fault.h"

namespace bitrift::inject {

/// The bytes of a file that hold no tensor's values: superblock, object headers, heaps, trees, attributes,
/// gaps. First and last + 1, ascending.
struct ByteExtent {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  std::string
      structure;  ///< "object header of /w", "chunk index ... of /w", "unused", ... (h5map/structures.h)
};
[[nodiscard]] std::vector<ByteExtent> metadata_extents(const ckpt::Reader& reader);

/// Draws the faults of a model of the plane metadata: flips of single bits, the i-th being
/// Permutation(bits, derive_key(seed, "inject.metadata"))(i) of the extents' bits, byte by byte, bit 0 first.
/// Throws Error(bad_input) when the model asks for what this plane does not have (tensors, roles, fields,
/// other kinds, a fraction).
[[nodiscard]] Plan plan_metadata(const ckpt::Reader& reader, const record::FaultModel& model);

}  // namespace bitrift::inject
