#include "h5map/chunk/grid.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/error.h"
#include "h5map/structure/source.h"

namespace bitrift::h5map {
namespace {

constexpr std::uint64_t most_cells = std::uint64_t{1} << 63;

std::uint64_t cells_along(std::uint64_t extent, std::uint64_t chunk) {
  return extent / chunk + (extent % chunk == 0 ? 0 : 1);
}

std::uint64_t bounded_product(std::uint64_t a, std::uint64_t b, const std::string& where, const char* what) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > most_cells) {
    fail(ErrorCode::unsupported, "{}: {} are more than 2^63", where, what);
  }
  return product;
}

}  // namespace

ChunkGrid::ChunkGrid(const ChunkedLayout& layout, std::span<const std::uint64_t> shape,
                     std::span<const std::uint64_t> max_shape, std::uint64_t element_bytes,
                     const std::string& where)
    : shape_(shape.begin(), shape.end()), chunk_(layout.chunk), chunk_bytes_(element_bytes) {
  const std::size_t rank = chunk_.size();
  if (rank == 0 || rank > most_dimensions || shape.size() != rank || max_shape.size() != rank) {
    fail(ErrorCode::bad_file, "{}: has {} dimensions and chunks of {}", where, shape.size(), rank);
  }
  for (std::size_t i = 0; i < rank; ++i) {
    if (chunk_[i] == 0) fail(ErrorCode::bad_file, "{}: a chunk has no extent in dimension {}", where, i);
    if (max_shape[i] < shape[i]) {
      fail(ErrorCode::bad_file, "{}: dimension {} has {} elements and may have {} at most", where, i,
           shape[i], max_shape[i]);
    }
    chunk_bytes_ = bounded_product(chunk_bytes_, chunk_[i], where, "the bytes of a chunk");
    cells_.push_back(cells_along(shape[i], chunk_[i]));
    count_ = bounded_product(count_, cells_.back(), where, "its chunks");
  }
  if (chunk_bytes_ == 0) fail(ErrorCode::bad_file, "{}: its chunks have no bytes", where);
  number_slots(layout, max_shape, where);
}

void ChunkGrid::number_slots(const ChunkedLayout& layout, std::span<const std::uint64_t> max_shape,
                             const std::string& where) {
  if (layout.index == ChunkIndex::btree1 || layout.index == ChunkIndex::btree2) return;
  const std::size_t rank = chunk_.size();
  const auto unlimited = static_cast<std::size_t>(std::count(max_shape.begin(), max_shape.end(), undefined));
  if (unlimited != (layout.index == ChunkIndex::extensible_array ? 1U : 0U)) {
    fail(ErrorCode::bad_file, "{}: {} unlimited dimensions do not fit the index of its chunks", where,
         unlimited);
  }
  order_.resize(rank);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  if (unlimited == 1) {
    const auto at = std::find(max_shape.begin(), max_shape.end(), undefined) - max_shape.begin();
    std::rotate(order_.begin(), order_.begin() + at, order_.begin() + at + 1);
  }
  steps_.assign(rank, 1);
  same_order_ = true;
  for (std::size_t i = rank; i-- > 1;) {
    const std::size_t dimension = order_[i];
    const std::uint64_t most = cells_along(max_shape[dimension], chunk_[dimension]);
    steps_[i - 1] = bounded_product(steps_[i], most, where, "its chunks at its largest");
    same_order_ = same_order_ && most == cells_[dimension] && dimension == i;
  }
  same_order_ = same_order_ && order_[0] == 0;
  if (unlimited == 0) {
    const std::uint64_t most = cells_along(max_shape[order_[0]], chunk_[order_[0]]);
    slots_ = bounded_product(steps_[0], most, where, "its chunks at its largest");
  }
}

std::vector<std::uint64_t> ChunkGrid::position(std::uint64_t cell) const {
  std::vector<std::uint64_t> at(rank());
  for (std::size_t i = rank(); i-- > 0; cell /= cells_[i]) at[i] = cell % cells_[i];
  return at;
}

std::optional<std::uint64_t> ChunkGrid::cell(std::span<const std::uint64_t> position) const {
  std::uint64_t cell = 0;
  for (std::size_t i = 0; i < rank(); ++i) {
    if (position[i] >= cells_[i]) return std::nullopt;
    cell = cell * cells_[i] + position[i];
  }
  return cell;
}

bool ChunkGrid::partial(std::uint64_t cell) const {
  for (std::size_t i = rank(); i-- > 0; cell /= cells_[i]) {
    if (cell % cells_[i] == cells_[i] - 1 && shape_[i] % chunk_[i] != 0) return true;
  }
  return false;
}

std::uint64_t ChunkGrid::slot(std::uint64_t cell) const {
  if (same_order_) return cell;
  const std::vector<std::uint64_t> at = position(cell);
  std::uint64_t slot = 0;
  for (std::size_t i = 0; i < rank(); ++i) {
    std::uint64_t part = 0;
    // Nothing limits the product along the unlimited dimension: such a slot is beyond every array.
    if (__builtin_mul_overflow(at[order_[i]], steps_[i], &part) ||
        __builtin_add_overflow(slot, part, &slot)) {
      return undefined;
    }
  }
  return slot;
}

std::optional<std::uint64_t> ChunkGrid::cell_of_slot(std::uint64_t slot) const {
  if (same_order_) return slot < count_ ? std::optional(slot) : std::nullopt;
  std::array<std::uint64_t, most_dimensions> at{};
  for (std::size_t i = 0; i < rank(); ++i) {
    if (steps_[i] == 0) return std::nullopt;
    at[order_[i]] = slot / steps_[i];
    slot %= steps_[i];
  }
  return cell(std::span(at).first(rank()));
}

}  // namespace bitrift::h5map
