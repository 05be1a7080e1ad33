// The grid that chunks cut a dataset into, and how the array-like indexes number its cells.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "h5map/structure/storage_layout.h"

namespace bitrift::h5map {

/// Most dimensions that HDF5 has (H5S_MAX_RANK).
inline constexpr std::size_t most_dimensions = 32;

/// Cells in row-major order of the dataset's present shape. An index numbers them otherwise: in row-major
/// order of the largest shape that the dataset may take, for an extensible array with the one unlimited
/// dimension moved to the front (HDF5 file format 3.0, "Appendix C"; H5Dfarray.c, H5Dearray.c).
class ChunkGrid {
 public:
  /// `max_shape` has `undefined` for an unlimited dimension. `where` names file and dataset in messages.
  /// Throws Error(bad_file) when shapes, chunk and index contradict each other, Error(unsupported) for grids
  /// beyond 2^63 cells.
  ChunkGrid(const ChunkedLayout& layout, std::span<const std::uint64_t> shape,
            std::span<const std::uint64_t> max_shape, std::uint64_t element_bytes, const std::string& where);

  [[nodiscard]] std::size_t rank() const noexcept { return chunk_.size(); }
  [[nodiscard]] const std::vector<std::uint64_t>& chunk() const noexcept { return chunk_; }  ///< shape of one
  [[nodiscard]] const std::vector<std::uint64_t>& cells() const noexcept {
    return cells_;
  }                                                                      ///< per dimension
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }  ///< cells in all
  [[nodiscard]] std::uint64_t chunk_bytes() const noexcept {
    return chunk_bytes_;
  }  ///< of a whole chunk, decoded

  /// Position of a cell along each dimension. `cell` < count().
  [[nodiscard]] std::vector<std::uint64_t> position(std::uint64_t cell) const;
  /// The cell at a position; nullopt when it lies outside of the present shape.
  [[nodiscard]] std::optional<std::uint64_t> cell(std::span<const std::uint64_t> position) const;
  /// True when the dataset's edge cuts the chunk.
  [[nodiscard]] bool partial(std::uint64_t cell) const;

  /// The number of a cell in an index that is an array, and back.
  [[nodiscard]] std::uint64_t slot(std::uint64_t cell) const;
  [[nodiscard]] std::optional<std::uint64_t> cell_of_slot(std::uint64_t slot) const;
  /// Slots that such an index can need; nullopt: no end (an unlimited dimension).
  [[nodiscard]] std::optional<std::uint64_t> slots() const noexcept { return slots_; }

 private:
  void number_slots(const ChunkedLayout& layout, std::span<const std::uint64_t> max_shape,
                    const std::string& where);

  std::vector<std::uint64_t> shape_, chunk_, cells_;
  std::uint64_t count_ = 1, chunk_bytes_ = 0;
  std::vector<std::size_t> order_;    // dimensions, the slowest of the index first
  std::vector<std::uint64_t> steps_;  // slots from one cell to the next along order_[i]
  std::optional<std::uint64_t> slots_;
  bool same_order_ = false;  // a slot is a cell
};

}  // namespace bitrift::h5map
