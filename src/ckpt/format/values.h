// The values of one dataset or attribute: their place in the file, and their bytes with filters undone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/format/chunk_cache.h"
#include "core/file.h"
#include "filters/pipeline_spec.h"
#include "h5map/chunk/chunk_table.h"
#include "h5map/h5_file.h"
#include "h5map/structure/seal.h"

namespace bitrift::ckpt {

/// An open file as values are read from it. Indexes of chunks and what is kept of them are used under the
/// lock, values are read beside it.
struct ValueSource {
  const h5map::File& file;
  const FileDescriptor& fd;
  std::mutex& lock;
  ChunkCache& kept;
};

/// Bytes of a dataset or attribute are counted row-major, as a program reads them that asks for all. Any
/// number of threads may use it and others of the same file at once. All members throw Error(bad_file) for
/// damage, Error(unsupported) for filters that cannot be applied, Error(io), also if memory is short. Beside
/// what is read, a chunk takes its decoded size four times at most, and few are decoded at once when they
/// are large; chunks that HDF5 itself must decode take more, in a child process.
class Values {
 public:
  /// What the source refers to must outlive it; `fd` reads what `file` describes.
  Values(const ValueSource& source, const h5map::Dataset& dataset);
  Values(const ValueSource& source, const std::string& path, const h5map::Attribute& attribute);
  ~Values();
  Values(Values&&) noexcept;
  Values& operator=(Values&&) noexcept;

  [[nodiscard]] std::uint64_t bytes() const noexcept;
  /// Why no byte can be read; "" when they can.
  [[nodiscard]] const std::string& unreadable() const noexcept;
  /// Why no byte can be altered; "" when each can. Looks at the index of chunked storage.
  [[nodiscard]] std::string unalterable() const;
  /// Bytes [first, first + out.size()). Elements that are not stored have the fill value.
  void read(std::uint64_t first, std::span<std::uint8_t> out) const;
  /// Who reads the values one after the other and not at once, reads a multiple of so many bytes: then no
  /// chunk is decoded twice, and they are decoded on all cores. 1 where it does not matter.
  [[nodiscard]] std::uint64_t stride() const noexcept;

  /// Where a byte is.
  struct Spot {
    std::uint64_t at = 0;               ///< in the file, or in the decoded chunk when there is one
    std::uint64_t run = 0;              ///< bytes from here on that follow each other in both
    std::optional<h5map::Chunk> chunk;  ///< with filters
    std::optional<h5map::Seal> seal;    ///< that covers it
  };
  /// Throws also Error(unsupported) when it is not stored.
  [[nodiscard]] Spot locate(std::uint64_t byte) const;

  /// Index of the chunks; nullptr when storage is not chunked.
  [[nodiscard]] const h5map::ChunkTable* chunks() const noexcept;
  /// A chunk's values.
  [[nodiscard]] std::vector<std::uint8_t> decode(const h5map::Chunk& chunk) const;
  /// The stored form of altered values, which decodes to them again. Throws also Error(unsupported) when the
  /// filters do not keep every value.
  [[nodiscard]] h5::StoredChunk encode(const h5map::Chunk& chunk, std::span<const std::uint8_t> values) const;

  /// Runs of stored bytes, filtered or not, in the order of the values.
  struct StoredRun {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] std::vector<StoredRun> stored_runs() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitrift::ckpt
