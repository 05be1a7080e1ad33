// The values of one dataset or attribute: their place in the file, and their bytes with filters undone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "h5map/chunk/chunk_table.h"
#include "h5map/filter/codec.h"
#include "h5map/structure/seal.h"

namespace bitrift::ckpt {

/// The stored form of a chunk's values, and what the file records of it besides its size.
struct EncodedChunk {
  std::vector<std::uint8_t> bytes;
  std::uint32_t mask = 0;   ///< HDF5: bit i: filter i was skipped
  std::uint32_t crc32 = 0;  ///< zip: of the values
};

/// Bytes of a dataset or attribute are counted row-major, as a program sees them that reads all of it; bytes
/// of an array with another order of elements are counted in the order of the file. Any number of threads may
/// use it and others of the same file at once. All members throw Error(bad_file) for damage,
/// Error(unsupported) for filters that cannot be applied, Error(io), also if memory is short. A deflated
/// member of an archive is one chunk, of cell 0.
class Values {
 public:
  Values() = default;
  virtual ~Values() = default;
  Values(Values&&) = delete;
  Values& operator=(Values&&) = delete;

  [[nodiscard]] virtual std::uint64_t bytes() const noexcept = 0;
  /// Why no byte can be read; "" when they can.
  [[nodiscard]] virtual const std::string& unreadable() const noexcept = 0;
  /// Why no byte can be altered; "" if each can. Reads the index of chunked storage.
  [[nodiscard]] virtual std::string unalterable() const = 0;
  /// Bytes [first, first + out.size()). Elements that are not stored have the fill value.
  virtual void read(std::uint64_t first, std::span<std::uint8_t> out) const = 0;
  /// A caller that reads the values in pieces should read a multiple of this many bytes: then no chunk is
  /// decoded twice, and chunks are decoded on all cores. 1 where it does not matter.
  [[nodiscard]] virtual std::uint64_t stride() const noexcept = 0;

  /// The place of a byte.
  struct Spot {
    std::uint64_t at = 0;               ///< in the file, or in the decoded chunk when there is one
    std::uint64_t run = 0;              ///< number of bytes from here on that follow each other in both
    std::optional<h5map::Chunk> chunk;  ///< with filters
    std::optional<h5map::Seal> seal;    ///< that covers it
    /// For elements that take a part of a byte: the lowest bit of this one in the byte `at`.
    std::optional<unsigned> bit = {};
  };
  /// Throws also Error(unsupported) when it is not stored.
  [[nodiscard]] virtual Spot locate(std::uint64_t byte) const = 0;

  /// Size of a decoded chunk; 0 where storage has none.
  [[nodiscard]] virtual std::uint64_t chunk_bytes() const noexcept = 0;
  /// A chunk's values.
  [[nodiscard]] virtual std::vector<std::uint8_t> decode(const h5map::Chunk& chunk) const = 0;
  /// The stored form of a chunk's values after `change` has altered some in place; it decodes to the altered
  /// values. Throws also Error(unsupported) when the filters do not keep every value, and what `change`
  /// throws.
  [[nodiscard]] virtual EncodedChunk recode(const h5map::Chunk& chunk,
                                            const h5map::ValueChange& change) const = 0;

  /// Runs of stored bytes, filtered or not, in the order of the values.
  struct StoredRun {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] virtual std::vector<StoredRun> stored_runs() const = 0;
};

}  // namespace bitrift::ckpt
