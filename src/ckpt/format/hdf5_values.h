// The values of a dataset or attribute of an HDF5 file.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ckpt/format/chunk_cache.h"
#include "ckpt/format/values.h"
#include "core/file.h"
#include "filters/pipeline_spec.h"
#include "h5map/h5_file.h"

namespace bitrift::ckpt {

/// An open file from which values are read. Indexes of chunks and what is kept of them are used under the
/// lock; values are read without it.
struct ValueSource {
  const h5map::File& file;
  const FileDescriptor& fd;
  std::mutex& lock;
  ChunkCache& kept;
};

/// In addition to the result, a chunk takes at most four times its decoded size, six times while it is
/// altered, and few are decoded at once when they are large; chunks that HDF5 itself must decode take more,
/// in a child process.
class Hdf5Values final : public Values {
 public:
  /// Everything that `source` refers to must outlive this object. `fd` reads the file that `file` describes.
  Hdf5Values(const ValueSource& source, const h5map::Dataset& dataset);
  Hdf5Values(const ValueSource& source, const std::string& path, const h5map::Attribute& attribute);
  ~Hdf5Values() override;

  [[nodiscard]] std::uint64_t bytes() const noexcept override;
  [[nodiscard]] const std::string& unreadable() const noexcept override;
  [[nodiscard]] std::string unalterable() const override;
  void read(std::uint64_t first, std::span<std::uint8_t> out) const override;
  [[nodiscard]] std::uint64_t stride() const noexcept override;
  [[nodiscard]] Spot locate(std::uint64_t byte) const override;
  [[nodiscard]] std::uint64_t chunk_bytes() const noexcept override;
  [[nodiscard]] std::vector<std::uint8_t> decode(const h5map::Chunk& chunk) const override;
  [[nodiscard]] EncodedChunk recode(const h5map::Chunk& chunk,
                                    const h5map::ValueChange& change) const override;
  [[nodiscard]] std::vector<StoredRun> stored_runs() const override;

  /// Index of the chunks; nullptr when storage is not chunked.
  [[nodiscard]] const h5map::ChunkTable* chunks() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitrift::ckpt
