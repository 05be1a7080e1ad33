// The chunks of a dataset: which exist, where they are, and where the index says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "h5map/chunk/entry.h"
#include "h5map/chunk/grid.h"
#include "h5map/structure/source.h"
#include "h5map/structure/storage_layout.h"

namespace bitrift::h5map {

/// One stored chunk.
struct Chunk {
  std::uint64_t cell = 0;    ///< its place in the grid of the dataset's current shape, row-major
  std::uint64_t offset = 0;  ///< in the file, user block included
  std::uint64_t bytes = 0;   ///< stored
  std::uint32_t mask = 0;    ///< bit i: filter i was skipped
  bool filtered = false;     ///< false: the pipeline was not applied at all, `bytes` is the whole chunk
  std::uint64_t entry_at = 0;
  Seal entry_seal;
};

/// Where the index holds its statements about a chunk; `offset` 0 for those that it does not hold.
struct ChunkFields {
  Field address;  ///< relative to the frame's base
  Field bytes;
  Field mask;
};

/// Reads the index of a chunked dataset, of any kind. Every chunk it returns is inside the file, and an
/// unfiltered one has exactly the bytes of a chunk. Chunks outside the dataset's present shape are left out.
/// The caller must check that no two chunks share bytes. The
/// source must outlive the table. All members throw Error(bad_file) for damage, Error(unsupported) for
/// versions that are not known; messages begin with the file's name.
class ChunkTable {
 public:
  /// `layout` must be that of a chunked dataset. `max_shape` has `undefined` for an unlimited dimension.
  ChunkTable(const Source& source, const Frame& frame, const Layout& layout,
             std::span<const std::uint64_t> shape, std::span<const std::uint64_t> max_shape,
             std::uint64_t element_bytes, const std::string& dataset);
  ~ChunkTable();
  ChunkTable(ChunkTable&&) noexcept;
  ChunkTable& operator=(ChunkTable&&) noexcept;

  [[nodiscard]] const ChunkGrid& grid() const noexcept;
  /// The chunk of a cell; nullopt when none is stored. Reads only the nodes on the way to it.
  [[nodiscard]] std::optional<Chunk> find(std::uint64_t cell) const;
  /// Passes all stored chunks, in the order of the index, each cell once.
  void visit(const std::function<void(const Chunk&)>& each) const;
  /// All of them, by ascending cell.
  [[nodiscard]] std::vector<Chunk> all() const;
  [[nodiscard]] ChunkFields fields(const Chunk& chunk) const;

 private:
  struct State;
  [[nodiscard]] Chunk checked(std::uint64_t cell, const ChunkEntry& entry) const;

  std::unique_ptr<State> state_;
};

}  // namespace bitrift::h5map
