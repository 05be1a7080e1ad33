// The superblock: where an HDF5 file begins, its declared size, and the place of its root group.
#pragma once

#include <cstdint>

#include "h5map/structure/source.h"
#include "h5map/structure/storage_layout.h"

namespace bitrift::h5map {

/// Type of the object header message that says how the file manages its free space.
inline constexpr unsigned space_info_message = 0x17;

/// A superblock (HDF5 file format 3.0, section II.A). Offsets are those of the file, user block included.
struct Superblock {
  unsigned version = 0;  ///< 0 to 3
  std::uint64_t offset = 0;
  Frame frame;
  std::uint64_t stored_base = 0;        ///< its own address as stored: a user block may have been added later
  std::uint64_t end_of_file = 0;        ///< as it says
  Field end_of_file_field;              ///< the place of that field, which holds end_of_file - offset +
                                        ///< stored_base
  std::uint64_t root = 0;               ///< header of the root group
  std::uint64_t extension = undefined;  ///< header of its extension; `undefined`: none
  std::uint64_t driver_info = undefined;  ///< driver information block; `undefined`: none
  bool marked_open = false;  ///< version 3: a program that wrote the file did not close it; HDF5 refuses it
  unsigned leaf_k = 4;       ///< half the most entries of a symbol table node
  unsigned internal_k = 16;  ///< half the most children of a group's B-tree node
  std::uint64_t shared_messages = undefined;  ///< shared message table; `undefined`: none
  unsigned shared_indexes = 0;                ///< number of entries of that table
  /// Lists of free space are kept in the file. HDF5 1.10 then truncates the file where they begin when it
  /// writes next, and data that was appended after them is lost.
  bool keeps_free_space = false;
};

/// Whether the signature is at byte 0, 512, 1024, 2048, ...
[[nodiscard]] bool has_signature(const Source& source);

/// Finds the signature at byte 0, 512, 1024, 2048, ... and reads what follows, the extension included; a
/// checksum is verified. Throws Error(bad_file) when there is none, when it is damaged, when the file is
/// shorter than it says ("is truncated"); Error(unsupported) for files in several pieces (family, multi and
/// other drivers) and for versions above 3.
[[nodiscard]] Superblock read_superblock(const Source& source);

}  // namespace bitrift::h5map
