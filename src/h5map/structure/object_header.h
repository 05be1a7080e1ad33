// Object headers: the messages that describe a group, a dataset or a committed datatype.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "h5map/structure/seal.h"
#include "h5map/structure/source.h"
#include "h5map/structure/storage_layout.h"

namespace bitrift::h5map {

/// Message types of the HDF5 file format, section IV.A.2.
namespace message {
inline constexpr unsigned dataspace = 0x01, link_info = 0x02, datatype = 0x03, old_fill = 0x04, fill = 0x05,
                          link = 0x06, external = 0x07, layout = 0x08, group_info = 0x0a, filters = 0x0b,
                          attribute = 0x0c, continuation = 0x10, symbol_table = 0x11, attribute_info = 0x15;
inline constexpr unsigned newest = 0x18;  ///< HDF5 2.0 knows nothing above this
}  // namespace message

/// One message of an object header.
struct Message {
  unsigned type = 0;
  unsigned flags = 0;
  std::uint64_t offset = 0;  ///< of body[0] in the file, user block included
  std::optional<Seal> seal;  ///< the checksum that covers the body: version 2 headers, heap blocks
  std::vector<std::uint8_t> body;

  /// The body is a reference to a message elsewhere (see shared_message.h).
  [[nodiscard]] bool shared() const noexcept { return (flags & 2U) != 0; }
};

/// An object header with all its continuations; padding (NIL) and continuation messages are left out.
struct ObjectHeader {
  std::uint64_t offset = 0;  ///< in the file, user block included
  unsigned version = 1;      ///< 1 or 2
  std::vector<Message> messages;

  /// The first message of a type, or null.
  [[nodiscard]] const Message* find(unsigned type) const noexcept;
};

/// Reads a header of version 1 or 2 (HDF5 file format 3.0, section IV.A.1). Throws Error(bad_file) that names
/// file and byte: beyond the end, a wrong checksum, a message larger than its place, continuations that
/// repeat; Error(unsupported) when it holds an unknown message that is marked as one that must be understood.
[[nodiscard]] ObjectHeader read_object_header(const Source& source, const Frame& frame, std::uint64_t offset);

}  // namespace bitrift::h5map
