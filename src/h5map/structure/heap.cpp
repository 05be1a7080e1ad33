#include "h5map/structure/heap.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "h5map/structure/block.h"

namespace bitrift::h5map {
namespace {

constexpr std::string_view kLocal = "local heap";
constexpr std::string_view kGlobal = "global heap";
// For a collection and for each object in it: HDF5 pads both to a multiple of eight bytes, so that files with
// short lengths have heads of this size too.
constexpr std::uint64_t kGlobalHead = 16;

}  // namespace

LocalHeap::LocalHeap(const Source& source, const Frame& frame, std::uint64_t offset)
    : source_(&source), offset_(offset) {
  const auto head = source.read(offset, 8U + 2U * frame.length_bytes + frame.offset_bytes, kLocal);
  if (std::memcmp(head.data(), "HEAP", 4) != 0 || head[4] != 0) {
    fail(ErrorCode::bad_file, "{}: local heap at byte {} lacks its signature", source.name(), offset);
  }
  Cursor cursor(head, source.name(), kLocal);
  cursor.skip(8);
  const std::uint64_t bytes = cursor.number(frame.length_bytes);
  cursor.skip(frame.length_bytes);
  const std::uint64_t data = place(source, frame, cursor.address(frame.offset_bytes), kLocal);
  data_ = source.read(data, bytes, "local heap data");
}

std::string LocalHeap::text(std::uint64_t position) const {
  if (position < data_.size()) {
    const auto first = data_.begin() + static_cast<std::ptrdiff_t>(position);
    const auto last = std::find(first, data_.end(), std::uint8_t{0});
    if (last != data_.end()) return {first, last};
  }
  fail(ErrorCode::bad_file, "{}: local heap at byte {} has no text at position {}", source_->name(), offset_,
       position);
}

GlobalObject find_global_object(const Source& source, const Frame& frame, std::uint64_t offset,
                                unsigned index) {
  const unsigned wide = frame.length_bytes;
  const auto head = source.read(offset, kGlobalHead, kGlobal);
  if (std::memcmp(head.data(), "GCOL", 4) != 0 || head[4] != 1) {
    fail(ErrorCode::bad_file, "{}: global heap at byte {} lacks its signature", source.name(), offset);
  }
  Cursor first(head, source.name(), kGlobal);
  first.skip(8);
  const std::uint64_t bytes = first.number(wide);
  if (bytes < head.size()) {
    fail(ErrorCode::bad_file, "{}: global heap at byte {} is smaller than its head", source.name(), offset);
  }
  const auto all = source.read(offset, bytes, kGlobal);
  Cursor cursor(all, source.name(), kGlobal);
  cursor.skip(head.size());
  while (cursor.left() >= kGlobalHead) {
    const unsigned found = cursor.u16();
    cursor.skip(6);
    const std::uint64_t size = cursor.number(wide);
    cursor.skip(kGlobalHead - 8U - wide);
    if (found == 0) break;  // the free space: nothing comes after it
    if (found == index) {
      GlobalObject object{offset + cursor.position(), size};
      cursor.skip(size);
      return object;
    }
    const std::uint64_t padded = size > cursor.left() ? size : size + (8 - size % 8) % 8;
    cursor.skip(padded);
  }
  fail(ErrorCode::bad_file, "{}: global heap at byte {} has no object {}", source.name(), offset, index);
}

}  // namespace bitrift::h5map
