// Structures of the newer HDF5 format: they begin with a signature and end with a checksum.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "h5map/structure/seal.h"
#include "h5map/structure/source.h"
#include "h5map/structure/storage_layout.h"

namespace bitrift::h5map {

/// The bytes of one such structure, signature and checksum included.
struct Block {
  std::uint64_t offset = 0;  ///< in the file, user block included
  std::vector<std::uint8_t> bytes;

  [[nodiscard]] Seal seal() const noexcept { return {offset, offset + bytes.size() - 4}; }
  /// The place of `width` bytes at position `at` of this structure.
  [[nodiscard]] Field field(std::uint64_t at, unsigned width) const { return {offset + at, width, seal()}; }
  /// The bytes between signature and checksum; positions count from the end of the signature. `what` as for
  /// Cursor.
  [[nodiscard]] Cursor body(const Source& source, std::string_view what) const {
    return {std::span(bytes).subspan(4, bytes.size() - 8), source.name(), what};
  }
  /// body() after its version byte. Throws Error(unsupported) when that is not 0, the only known version.
  [[nodiscard]] Cursor body_of_version_0(const Source& source, std::string_view what) const;
};

/// Reads a structure of `bytes` bytes (at least 8) at `offset` and checks both. Throws Error(bad_file,
/// "<name>: <what> at byte <offset> ..."): beyond the file's end, without its signature, or of another
/// checksum.
[[nodiscard]] Block read_block(const Source& source, std::uint64_t offset, std::uint64_t bytes,
                               std::string_view signature, std::string_view what);

/// The place in the file of an address that is relative to the frame's base; `undefined` stays. Throws
/// Error(bad_file) when the sum does not fit.
[[nodiscard]] std::uint64_t place(const Source& source, const Frame& frame, std::uint64_t address,
                                  std::string_view what);

}  // namespace bitrift::h5map
