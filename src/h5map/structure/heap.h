// The two older heaps: names of a group (local), and values of variable length (global).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "h5map/structure/source.h"
#include "h5map/structure/storage_layout.h"

namespace bitrift::h5map {

/// A local heap (HDF5 file format 3.0, section III.D): texts that end in a zero. The source must outlive it.
class LocalHeap {
 public:
  /// Reads the heap at `offset` in the file, user block included. Throws Error(bad_file).
  LocalHeap(const Source& source, const Frame& frame, std::uint64_t offset);
  /// The text that begins at a position of the heap's data. Throws Error(bad_file) when it lies outside or
  /// has no end.
  [[nodiscard]] std::string text(std::uint64_t position) const;

 private:
  const Source* source_;
  std::uint64_t offset_ = 0;
  std::vector<std::uint8_t> data_;
};

/// An object of a global heap.
struct GlobalObject {
  std::uint64_t offset = 0;  ///< in the file, user block included
  std::uint64_t bytes = 0;
};

/// Finds object `index` (from 1) of the global heap collection at `offset` in the file (section III.E).
/// Throws Error(bad_file) when such a collection or object does not exist.
[[nodiscard]] GlobalObject find_global_object(const Source& source, const Frame& frame, std::uint64_t offset,
                                              unsigned index);

}  // namespace bitrift::h5map
