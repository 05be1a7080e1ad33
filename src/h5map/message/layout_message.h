// The messages that say where and how the elements of a dataset are stored.
#pragma once

#include <vector>

#include "h5map/structure/object_header.h"
#include "h5map/structure/source.h"
#include "h5map/structure/storage_layout.h"

namespace bitrift::h5map {

/// Reads a layout message of version 1 to 5 (HDF5 file format 4.0, section IV.A.2.i). `filters`, `external`
/// and `virtual_sources` stay empty, and `bytes` is 0 for contiguous storage of versions 1 and 2, which do
/// not say it. Throws Error(bad_file) that names the byte: dimensions of zero, more than 32, a chunk above
/// 2^32 bytes (2^63 in version 5); Error(unsupported) for other versions, classes and indexes.
[[nodiscard]] Layout parse_layout(const Source& source, const Frame& frame, const Message& message);

/// Reads a filter pipeline message, version 1 or 2 (section IV.A.2.l). Throws Error(bad_file | unsupported).
[[nodiscard]] std::vector<Filter> parse_filters(const Source& source, const Message& message);

/// Reads an external data files message (section IV.A.2.h). Throws Error(bad_file | unsupported).
[[nodiscard]] std::vector<ExternalSegment> parse_external(const Source& source, const Frame& frame,
                                                          const Message& message);

/// Reads the sources of a virtual dataset from the global heap (section III.F), `layout` being that of a
/// virtual dataset; its checksum is verified. Throws Error(bad_file | unsupported).
[[nodiscard]] std::vector<VirtualSource> read_virtual_sources(const Source& source, const Frame& frame,
                                                              const Layout& layout);

}  // namespace bitrift::h5map
