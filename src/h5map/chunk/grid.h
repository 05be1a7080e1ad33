// The grid into which chunks divide a dataset, and the numbering of its cells in array-like indexes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "h5map/structure/storage_layout.h"

namespace bitrift::h5map {

/// The largest number of dimensions in HDF5 (H5S_MAX_RANK).
inline constexpr std::size_t most_dimensions = 32;

/// Cells in row-major order of the dataset's present shape. An index numbers them in another way: in
/// row-major order of the largest shape that the dataset may take; an extensible array moves the one
/// unlimited dimension to the front (HDF5 file format 3.0, "Appendix C"; H5Dfarray.c, H5Dearray.c).
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
  }  ///< bytes of a whole chunk, decoded

  /// Position of a cell along each dimension. `cell` < count().
  [[nodiscard]] std::vector<std::uint64_t> position(std::uint64_t cell) const;
  /// The cell at a position; nullopt when it lies outside of the present shape.
  [[nodiscard]] std::optional<std::uint64_t> cell(std::span<const std::uint64_t> position) const;
  /// Whether the chunk reaches beyond the dataset's edge.
  [[nodiscard]] bool partial(std::uint64_t cell) const;

  /// The number of a cell in an index that is an array, and back.
  [[nodiscard]] std::uint64_t slot(std::uint64_t cell) const;
  [[nodiscard]] std::optional<std::uint64_t> cell_of_slot(std::uint64_t slot) const;
  /// The number of slots that such an index can need; nullopt: unlimited (an unlimited dimension).
  [[nodiscard]] std::optional<std::uint64_t> slots() const noexcept { return slots_; }

 private:
  void number_slots(const ChunkedLayout& layout, std::span<const std::uint64_t> max_shape,
                    const std::string& where);

  std::vector<std::uint64_t> shape_, chunk_, cells_;
  std::uint64_t count_ = 1, chunk_bytes_ = 0;
  std::vector<std::size_t> order_;    // dimensions in the order of the index, the slowest first
  std::vector<std::uint64_t> steps_;  // slots from one cell to the next along order_[i]
  std::optional<std::uint64_t> slots_;
  bool same_order_ = false;  // each slot is a cell
};

}  // namespace bitrift::h5map
