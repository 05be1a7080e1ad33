// Messages that objects share: committed datatypes and the file's table of shared messages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "h5map/message/dataspace.h"
#include "h5map/message/datatype.h"
#include "h5map/structure/fractal_heap.h"
#include "h5map/structure/object_header.h"
#include "h5map/structure/superblock.h"

namespace bitrift::h5map {

/// Follows references to shared messages, of all versions that HDF5 1.4 to 2.0 wrote. All members throw
/// Error(bad_file) that names file and byte. Source and superblock must outlive it.
class SharedMessages {
 public:
  SharedMessages(const Source& source, const Superblock& superblock)
      : source_(&source), superblock_(&superblock) {}

  /// The message itself: a copy, or the message that it refers to (offset and seal are then those of the
  /// target).
  [[nodiscard]] Message resolve(const Message& message);
  /// The datatype of a datatype message. Committed ones are parsed once.
  [[nodiscard]] DatatypePtr datatype(const Message& message);
  [[nodiscard]] Dataspace dataspace(const Message& message);
  /// The shared message with this id in the heap for messages of a type.
  [[nodiscard]] HeapObject heap_object(unsigned type, std::span<const std::uint8_t> id);

 private:
  struct Index {
    unsigned types = 0;  // bit t: holds messages of type t
    std::uint64_t heap = undefined;
  };
  // The contents of the body of a shared message.
  struct Reference {
    std::uint64_t header = undefined;       // address of a committed datatype
    std::span<const std::uint8_t> heap_id;  // or its id in the heap of shared messages
  };

  [[nodiscard]] Reference parse(const Message& message) const;
  void read_table();

  const Source* source_;
  const Superblock* superblock_;
  std::optional<std::vector<Index>> indexes_;
  std::map<std::uint64_t, FractalHeap> heaps_;
  std::map<std::uint64_t, DatatypePtr> committed_;
};

}  // namespace bitrift::h5map
