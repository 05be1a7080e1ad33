// Values that a file keeps in other files (HDF5's external storage).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "h5map/structure/storage_layout.h"

namespace bitrift::ckpt {

/// Bytes [first, first + out.size()) of a dataset in pieces. Names are relative to the folder of `file`; a
/// name that leaves it is refused (Error(unsupported)), because a file from a stranger must not read others.
/// Bytes after the end of a piece's file are zeros, as for HDF5. `where` is for messages. Throws
/// Error(not_found | io) for missing files.
void read_external(const std::string& file, const std::string& where,
                   const std::vector<h5map::ExternalSegment>& segments, std::uint64_t first,
                   std::span<std::uint8_t> out);

}  // namespace bitrift::ckpt
