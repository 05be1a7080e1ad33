#include "h5map/bookkeeping.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/error.h"
#include "h5map/structure/block.h"
#include "h5map/structure/btree2.h"

namespace bitrift::h5map {
namespace {

constexpr std::string_view kFree = "free space manager";
constexpr std::string_view kInfo = "message";
// The part of a gap that is searched for heaps: a file with holes can have gaps of any size.
constexpr std::uint64_t kMostSearched = std::uint64_t{16} << 20U;

/// Calls `read`, and ignores damage.
template <typename Read>
void see(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_file && error.code() != ErrorCode::unsupported) throw;
  }
}

void see_free_space(const Source& source, const Frame& frame, std::uint64_t offset) {
  if (offset == undefined) return;
  const unsigned wide = frame.length_bytes;
  const Block block = read_block(source, offset, 18U + 7U * wide + frame.offset_bytes, "FSHD", kFree);
  Cursor cursor = block.body(source, kFree);
  cursor.skip(2U + 4U * wide + 8U + wide);
  const std::uint64_t sections = place(source, frame, cursor.address(frame.offset_bytes), kFree);
  cursor.skip(wide);
  if (sections != undefined) source.note(sections, cursor.number(wide), "free space sections");
}

void see_heap_space(const Source& source, const Frame& frame, std::uint64_t heap) {
  if (heap == undefined) return;
  const auto bytes =
      source.read(heap, 14U + 2U * frame.length_bytes + 2U * frame.offset_bytes, "fractal heap header");
  Cursor cursor(bytes, source.name(), kInfo);
  cursor.skip(14U + frame.length_bytes);
  const std::uint64_t huge = place(source, frame, cursor.address(frame.offset_bytes), kInfo);
  cursor.skip(frame.length_bytes);
  const std::uint64_t space = place(source, frame, cursor.address(frame.offset_bytes), kInfo);
  see([&] { see_free_space(source, frame, space); });
  if (huge != undefined) see([&] { BTree2(source, frame, huge).visit([](const BTree2::Record&) {}); });
}

/// Link info and attribute info messages: both hold a heap, an index by name and, if a flag says so, one by
/// order.
void see_indexes(const Source& source, const Frame& frame, const Message& info) {
  Cursor cursor(info.body, source.name(), kInfo);
  cursor.skip(1);
  const unsigned flags = cursor.u8();
  if ((flags & 1U) != 0) cursor.skip(info.type == message::link_info ? 8 : 2);
  const std::uint64_t heap = place(source, frame, cursor.address(frame.offset_bytes), kInfo);
  see([&] { see_heap_space(source, frame, heap); });
  cursor.skip(frame.offset_bytes);
  if ((flags & 2U) == 0) return;
  const std::uint64_t tree = place(source, frame, cursor.address(frame.offset_bytes), kInfo);
  if (tree != undefined) BTree2(source, frame, tree).visit([](const BTree2::Record&) {});
}

void see_shared_messages(const Source& source, const Superblock& superblock) {
  const Frame& frame = superblock.frame;
  const std::uint64_t table = superblock.shared_messages;
  const std::uint64_t entry = 14U + 2U * frame.offset_bytes;
  const auto bytes = source.read(table, 8 + superblock.shared_indexes * entry, "shared message table");
  Cursor cursor(bytes, source.name(), "shared message table");
  cursor.skip(4);
  for (unsigned i = 0; i < superblock.shared_indexes; ++i) {
    cursor.skip(1);
    const bool is_list = cursor.u8() == 0;
    cursor.skip(6);
    const std::uint64_t most = cursor.u16();
    cursor.skip(4);
    const std::uint64_t index = place(source, frame, cursor.address(frame.offset_bytes), kInfo);
    const std::uint64_t heap = place(source, frame, cursor.address(frame.offset_bytes), kInfo);
    see([&] { see_heap_space(source, frame, heap); });
    if (index == undefined) continue;
    // A record: place and hash, then a heap's id and a count, or an object's address and two numbers.
    const std::uint64_t record = 5U + std::max(12U, 4U + frame.offset_bytes);
    if (is_list) {
      source.note(index, 8 + most * record, "shared message list");
    } else {
      see([&] { BTree2(source, frame, index).visit([](const BTree2::Record&) {}); });
    }
  }
}

}  // namespace

void see_bookkeeping(const Source& source, const Frame& frame, const ObjectHeader& header) {
  for (const Message& info : header.messages) {
    if (info.type != message::link_info && info.type != message::attribute_info) continue;
    see([&] { see_indexes(source, frame, info); });
  }
}

void see_bookkeeping(const Source& source, const Superblock& superblock) {
  if (superblock.shared_messages != undefined) see([&] { see_shared_messages(source, superblock); });
  if (superblock.extension == undefined) return;
  const Frame& frame = superblock.frame;
  see([&] {
    const ObjectHeader header = read_object_header(source, frame, superblock.extension);
    const Message* space = header.find(space_info_message);
    if (space == nullptr) return;
    Cursor cursor(space->body, source.name(), kInfo);
    const bool first_version = cursor.u8() == 0;
    cursor.skip(first_version ? 1U + frame.length_bytes : 4U + 2U * frame.length_bytes + frame.offset_bytes);
    while (cursor.left() >= frame.offset_bytes) {
      const std::uint64_t manager = place(source, frame, cursor.address(frame.offset_bytes), kInfo);
      see([&] { see_free_space(source, frame, manager); });
    }
  });
}

void note_global_heaps(const Source& source, const Frame& frame, Structures& map) {
  constexpr std::array<std::uint8_t, 8> head = {'G', 'C', 'O', 'L', 1, 0, 0, 0};
  const std::uint64_t least = head.size() + frame.length_bytes;
  map.set_owner("");
  for (const auto& [first, end] : map.gaps(source.size())) {
    const auto bytes = source.read(first, std::min(end - first, kMostSearched), "unused");
    auto from = bytes.begin();
    while (true) {
      const auto found = std::search(from, bytes.end(), head.begin(), head.end());
      const auto position = static_cast<std::uint64_t>(found - bytes.begin());
      if (position + least > bytes.size()) break;
      Cursor cursor{std::span(bytes).subspan(position + head.size()), source.name(), "global heap"};
      const std::uint64_t size = cursor.number(frame.length_bytes);
      const bool fits = size >= least && size <= bytes.size() - position;
      if (fits) map.add(first + position, size, "global heap");
      from = found + static_cast<std::ptrdiff_t>(fits ? size : 1);
    }
  }
}

}  // namespace bitrift::h5map
