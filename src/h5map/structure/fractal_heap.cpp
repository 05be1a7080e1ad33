#include "h5map/structure/fractal_heap.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "h5map/structure/block.h"
#include "h5map/structure/btree2.h"

namespace bitrift::h5map {
namespace {

constexpr std::string_view heap_header_what = "fractal heap header";
constexpr std::string_view kDirect = "fractal heap direct block";
constexpr std::string_view kIndirect = "fractal heap indirect block";
constexpr std::string_view kHuge = "fractal heap huge object";
constexpr std::string_view kId = "fractal heap id";
constexpr unsigned kSumsInDirectBlocks = 2;

unsigned log2_of(std::uint64_t power) { return static_cast<unsigned>(std::countr_zero(power)); }

}  // namespace

FractalHeap::FractalHeap(const Source& source, const Frame& frame, std::uint64_t offset)
    : source_(&source), frame_(frame), offset_(offset) {
  const unsigned wide = frame.length_bytes;
  const unsigned address = frame.offset_bytes;
  {
    const auto head = source.read(offset, 9, heap_header_what);
    Cursor first(head, source.name(), heap_header_what);
    first.skip(7);
    if (std::memcmp(head.data(), "FRHP", 4) == 0 && first.u16() != 0) {
      fail(ErrorCode::unsupported, "{}: fractal heap at byte {} has filters, which bitrift does not undo",
           source.name(), offset);
    }
  }
  const Block block = read_block(source, offset, 26U + 12U * wide + 3U * address, "FRHP", heap_header_what);
  Cursor cursor = block.body(source, heap_header_what);
  if (cursor.u8() != 0) fail(ErrorCode::unsupported, "{}: fractal heap version is unknown", source.name());
  id_bytes_ = cursor.u16();
  cursor.skip(2);
  direct_sums_ = (cursor.u8() & kSumsInDirectBlocks) != 0;
  const std::uint64_t most_managed = cursor.u32();
  cursor.skip(wide);
  huge_tree_ = place(source, frame, cursor.address(address), heap_header_what);
  cursor.skip(std::uint64_t{wide} + address + std::uint64_t{8} * wide);
  read_table(cursor);
  // The width of a length in an id is that of the largest object, or of the largest direct block if that is
  // smaller.
  size_bytes_ =
      std::min((log2_of(direct_bytes_) + 7) / 8,
               most_managed == 0 ? 1U : static_cast<unsigned>(std::bit_width(most_managed) - 1) / 8 + 1);
}

/// The doubling table: rows of `width_` blocks, of `start_bytes_` in the first two rows and twice the size in
/// every further row; blocks above `direct_bytes_` are indirect.
void FractalHeap::read_table(Cursor& cursor) {
  width_ = cursor.u16();
  start_bytes_ = cursor.number(frame_.length_bytes);
  direct_bytes_ = cursor.number(frame_.length_bytes);
  const unsigned position_bits = cursor.u16();
  cursor.skip(2);
  root_ = place(*source_, frame_, cursor.address(frame_.offset_bytes), heap_header_what);
  root_rows_ = cursor.u16();
  position_bytes_ = (position_bits + 7) / 8;
  if (!std::has_single_bit(width_) || !std::has_single_bit(start_bytes_) ||
      !std::has_single_bit(direct_bytes_) || direct_bytes_ < start_bytes_ ||
      direct_bytes_ > (std::uint64_t{1} << 32U) || position_bits > 64 || position_bits == 0 ||
      log2_of(start_bytes_) + log2_of(width_) > 63 || root_rows_ > 64) {
    fail(ErrorCode::bad_file, "{}: fractal heap at byte {} has impossible block sizes", source_->name(),
         offset_);
  }
}

HeapObject FractalHeap::object(std::span<const std::uint8_t> id) {
  Cursor cursor(id, source_->name(), kId);
  const unsigned flags = cursor.u8();
  switch (flags >> 4U) {
    case 0:
      return managed(cursor);
    case 1:
      return huge(cursor);
    case 2:
      return tiny(id);
    default:
      fail(ErrorCode::bad_file, "{}: fractal heap at byte {} is asked for an object of unknown kind",
           source_->name(), offset_);
  }
}

HeapObject FractalHeap::managed(Cursor& id) {
  const std::uint64_t position = id.number(position_bytes_);
  const std::uint64_t bytes = id.number(size_bytes_);
  const Place at = find(position);
  const std::vector<std::uint8_t>& block = direct(at);
  const std::uint64_t inside = position - at.first;
  const std::uint64_t head = 5U + frame_.offset_bytes + position_bytes_ + (direct_sums_ ? 4U : 0U);
  if (inside < head || inside > block.size() || bytes > block.size() - inside) {
    fail(ErrorCode::bad_file,
         "{}: object at position {} of the fractal heap at byte {} lies outside of its block",
         source_->name(), position, offset_);
  }
  source_->spend(bytes);  // any number of ids may lead to it
  HeapObject object;
  const auto first = block.begin() + static_cast<std::ptrdiff_t>(inside);
  object.bytes.assign(first, first + static_cast<std::ptrdiff_t>(bytes));
  object.offset = at.offset + inside;
  if (direct_sums_) object.seal = Seal{at.offset, at.offset + head - 4, at.offset + at.bytes};
  return object;
}

FractalHeap::Place FractalHeap::find(std::uint64_t position) {
  const auto lost = [&] {
    fail(ErrorCode::bad_file, "{}: fractal heap at byte {} has no block for position {}", source_->name(),
         offset_, position);
  };
  if (root_ == undefined) lost();
  if (root_rows_ == 0) return {root_, start_bytes_, 0};
  const unsigned start_log = log2_of(start_bytes_), row_log = start_log + log2_of(width_);
  const unsigned direct_rows = log2_of(direct_bytes_) - start_log + 2;
  std::uint64_t table = root_, rows = root_rows_, first = 0;
  while (true) {
    const std::uint64_t inside = position - first;
    const auto row = static_cast<unsigned>(std::bit_width(inside >> row_log));
    if (row >= rows) lost();
    const std::uint64_t row_first = row == 0 ? 0 : std::uint64_t{1} << (row_log + row - 1);
    const unsigned block_log = start_log + (row == 0 ? 0 : row - 1);
    const std::uint64_t column = (inside - row_first) >> block_log;
    const std::vector<std::uint8_t>& bytes = indirect(table, rows, first);
    Cursor cursor(bytes, source_->name(), kIndirect);
    cursor.skip(5U + frame_.offset_bytes + position_bytes_ + (row * width_ + column) * frame_.offset_bytes);
    const std::uint64_t child = place(*source_, frame_, cursor.address(frame_.offset_bytes), kIndirect);
    if (child == undefined) lost();
    const std::uint64_t child_first = first + row_first + (column << block_log);
    if (row < direct_rows) return {child, std::uint64_t{1} << block_log, child_first};
    // A child has fewer rows than its parent, so this ends.
    if (block_log < row_log || block_log - row_log + 1 >= rows) lost();
    table = child;
    rows = block_log - row_log + 1;
    first = child_first;
  }
}

void FractalHeap::check_head(std::span<const std::uint8_t> bytes, std::uint64_t offset, std::uint64_t first,
                             std::string_view signature, std::string_view what) const {
  Cursor cursor(bytes, source_->name(), what);
  const auto found = cursor.take(4);
  const bool version_known = cursor.u8() == 0;
  const std::uint64_t owner = place(*source_, frame_, cursor.address(frame_.offset_bytes), what);
  const std::uint64_t position = cursor.number(position_bytes_);
  if (std::memcmp(found.data(), signature.data(), 4) != 0 || !version_known || owner != offset_ ||
      position != first) {
    fail(ErrorCode::bad_file, "{}: {} at byte {} is not the one that the heap at byte {} asks for",
         source_->name(), what, offset, offset_);
  }
}

const std::vector<std::uint8_t>& FractalHeap::indirect(std::uint64_t offset, std::uint64_t rows,
                                                       std::uint64_t first) {
  const auto known = blocks_.find(offset);
  const std::uint64_t size = 9U + frame_.offset_bytes + position_bytes_ + rows * width_ * frame_.offset_bytes;
  if (known != blocks_.end() && known->second.size() == size) return known->second;
  Block block = read_block(*source_, offset, size, "FHIB", kIndirect);
  check_head(block.bytes, offset, first, "FHIB", kIndirect);
  return blocks_.insert_or_assign(offset, std::move(block.bytes)).first->second;
}

const std::vector<std::uint8_t>& FractalHeap::direct(const Place& at) {
  const auto known = blocks_.find(at.offset);
  if (known != blocks_.end() && known->second.size() == at.bytes) return known->second;
  auto bytes = source_->read(at.offset, at.bytes, kDirect);
  check_head(bytes, at.offset, at.first, "FHDB", kDirect);
  if (direct_sums_) {
    const std::uint64_t sum = at.offset + 5U + frame_.offset_bytes + position_bytes_;
    Cursor cursor{std::span(bytes).subspan(sum - at.offset), source_->name(), kDirect};
    if (!sums_agree(cursor.u32(), sum_for({at.offset, sum, at.offset + at.bytes}, bytes))) {
      fail(ErrorCode::bad_file,
           "{}: fractal heap direct block at byte {} has a wrong checksum; the file is damaged",
           source_->name(), at.offset);
    }
  }
  return blocks_.insert_or_assign(at.offset, std::move(bytes)).first->second;
}

HeapObject FractalHeap::huge(Cursor& id) {
  HeapObject object;
  std::uint64_t address = undefined, bytes = 0;
  const unsigned wide = frame_.length_bytes;
  if (frame_.offset_bytes + wide <= id_bytes_ - 1) {
    address = id.address(frame_.offset_bytes);
    bytes = id.number(wide);
  } else {
    if (huge_tree_ == undefined) {
      fail(ErrorCode::bad_file, "{}: fractal heap at byte {} has no huge objects", source_->name(), offset_);
    }
    const std::uint64_t key = id.number(std::min(wide, id_bytes_ - 1));
    const BTree2 tree(*source_, frame_, huge_tree_);
    if (tree.type() != 1) {
      fail(ErrorCode::unsupported,
           "{}: huge objects of the fractal heap at byte {} are indexed in a way that is unknown",
           source_->name(), offset_);
    }
    const auto compare = [&](std::span<const std::uint8_t> record) {
      Cursor cursor(record, source_->name(), kHuge);
      cursor.skip(std::uint64_t{frame_.offset_bytes} + wide);
      return key <=> cursor.number(wide);
    };
    const bool found = tree.find(compare, [&](const BTree2::Record& record) {
      Cursor cursor(record.bytes, source_->name(), kHuge);
      address = cursor.address(frame_.offset_bytes);
      bytes = cursor.number(wide);
    });
    if (!found) {
      fail(ErrorCode::bad_file, "{}: fractal heap at byte {} has no huge object {}", source_->name(), offset_,
           key);
    }
  }
  object.offset = place(*source_, frame_, address, kHuge);
  object.bytes = source_->read(object.offset, bytes, kHuge);
  return object;
}

HeapObject FractalHeap::tiny(std::span<const std::uint8_t> id) const {
  Cursor cursor(id, source_->name(), kId);
  std::uint64_t bytes = cursor.u8() & 15U;
  if (id_bytes_ > 18) bytes = (bytes << 8U) + cursor.u8();
  const auto body = cursor.take(bytes + 1);
  HeapObject object;
  object.bytes.assign(body.begin(), body.end());
  object.offset = undefined;
  return object;
}

}  // namespace bitrift::h5map
