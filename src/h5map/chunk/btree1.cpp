#include "h5map/chunk/btree1.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "h5map/structure/block.h"

namespace bitrift::h5map {
namespace {

constexpr std::string_view what = "B-tree node";

}  // namespace

struct ChunkBTree1::Walk {
  const Visitor& each;
  std::unordered_set<std::uint64_t> seen;
  std::uint64_t bytes = 0;
};

ChunkBTree1::ChunkBTree1(const Source& source, const Frame& frame, std::uint64_t offset,
                         std::vector<std::uint64_t> chunk)
    : source_(&source), frame_(frame), root_(offset), chunk_(std::move(chunk)) {}

/// Where key `number` begins in the bytes of a node; the address of its child follows it.
std::uint64_t ChunkBTree1::key_at(std::uint64_t number) const noexcept {
  return number * (key_bytes() + frame_.offset_bytes);
}

ChunkBTree1::Node ChunkBTree1::read_node(std::uint64_t offset) const {
  const std::uint64_t head = 8 + 2 * std::uint64_t{frame_.offset_bytes};
  const auto prefix = source_->read(offset, head, what);
  if (std::memcmp(prefix.data(), "TREE", 4) != 0) {
    fail(ErrorCode::bad_file, "{}: {} at byte {} lacks its signature TREE; the file is damaged",
         source_->name(), what, offset);
  }
  Cursor cursor(std::span<const std::uint8_t>(prefix).subspan(4), source_->name(), what);
  const unsigned type = cursor.u8();
  Node node;
  node.offset = offset + head;
  node.level = cursor.u8();
  node.entries = cursor.u16();
  if (type != 1) {
    fail(ErrorCode::bad_file, "{}: {} at byte {} is of type {}, not one of chunks", source_->name(), what,
         offset, type);
  }
  node.bytes = source_->read(node.offset, key_at(node.entries) + key_bytes(), what);
  return node;
}

void ChunkBTree1::read_key(const Node& node, unsigned number, std::vector<std::uint64_t>& position,
                           ChunkEntry& entry) const {
  Cursor cursor(std::span(node.bytes).subspan(key_at(number), key_bytes()), source_->name(), what);
  entry.bytes = cursor.u32();
  entry.mask = cursor.u32();
  entry.entry_at = node.offset + key_at(number);
  position.resize(chunk_.size());
  for (std::size_t i = 0; i < chunk_.size(); ++i) {
    const std::uint64_t at = cursor.u64();
    if (at % chunk_[i] != 0) {
      fail(ErrorCode::bad_file,
           "{}: {} at byte {} has a chunk at element {} of dimension {}, where none can begin",
           source_->name(), what, node.offset, at, i);
    }
    position[i] = at / chunk_[i];
  }
}

std::uint64_t ChunkBTree1::child(const Node& node, unsigned number) const {
  const auto bytes = std::span(node.bytes).subspan(key_at(number) + key_bytes(), frame_.offset_bytes);
  Cursor cursor(bytes, source_->name(), what);
  const std::uint64_t offset = place(*source_, frame_, cursor.address(frame_.offset_bytes), what);
  if (offset == undefined) {
    fail(ErrorCode::bad_file, "{}: {} at byte {} points nowhere", source_->name(), what, node.offset);
  }
  return offset;
}

/// The position before which the chunks of child number - 1 lie: key `number`, with a place inside of an
/// element, which the key after the last child may have.
std::vector<std::uint64_t> ChunkBTree1::end_at(const Node& node, unsigned number) const {
  Cursor cursor(std::span(node.bytes).subspan(key_at(number), key_bytes()), source_->name(), what);
  cursor.skip(8);
  std::vector<std::uint64_t> end;
  for (const std::uint64_t extent : chunk_) end.push_back(cursor.u64() / extent);
  end.push_back(number < node.entries ? 0 : cursor.u64());
  return end;
}

/// Passes the chunks of a node, which must lie from `begin` on and before `end` (none: anywhere), because a
/// search, ours as HDF5's, relies on the keys above.
void ChunkBTree1::visit_node(const Node& node, const std::vector<std::uint64_t>& begin,
                             const std::vector<std::uint64_t>& end, Walk& walk) const {
  walk.bytes += node.bytes.size();
  if (!walk.seen.insert(node.offset).second || walk.bytes > source_->size()) {
    fail(ErrorCode::bad_file, "{}: the nodes of a B-tree overlap (one at byte {})", source_->name(),
         node.offset);
  }
  std::vector<std::uint64_t> position;
  ChunkEntry entry;
  for (unsigned i = 0; i < node.entries; ++i) {
    read_key(node, i, position, entry);
    std::vector<std::uint64_t> element = position;
    element.push_back(0);
    const std::vector<std::uint64_t> next = end_at(node, i + 1);
    if (position < begin || element >= next || (!end.empty() && element >= end)) {
      fail(ErrorCode::bad_file, "{}: the keys of the {} at byte {} are not in order", source_->name(), what,
           node.offset);
    }
    if (node.level == 0) {
      entry.offset = child(node, i);
      walk.each(position, entry);
      continue;
    }
    const Node below = read_node(child(node, i));
    if (below.level + 1 != node.level) {
      fail(ErrorCode::bad_file, "{}: {} at byte {} is on another level than its parent says", source_->name(),
           what, below.offset);
    }
    visit_node(below, position, end.empty() ? next : std::min(next, end), walk);
  }
}

void ChunkBTree1::visit(const Visitor& each) const {
  Walk walk{each, {}, 0};
  visit_node(read_node(root_), {}, {}, walk);
}

bool ChunkBTree1::find(std::span<const std::uint64_t> position, const Visitor& found) const {
  Node node = read_node(root_);
  std::vector<std::uint64_t> at;
  ChunkEntry entry;
  for (;;) {
    // The last key that is not beyond the position; key i is the smallest position in child i.
    unsigned low = 0;
    unsigned high = node.entries;
    while (low < high) {
      const unsigned middle = (low + high) / 2;
      read_key(node, middle, at, entry);
      if (std::lexicographical_compare(position.begin(), position.end(), at.begin(), at.end())) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    if (low == 0) return false;
    read_key(node, low - 1, at, entry);
    entry.offset = child(node, low - 1);
    if (node.level == 0) {
      if (!std::equal(position.begin(), position.end(), at.begin(), at.end())) return false;
      found(at, entry);
      return true;
    }
    Node below = read_node(entry.offset);
    if (below.level + 1 != node.level) {
      fail(ErrorCode::bad_file, "{}: {} at byte {} is on another level than its parent says", source_->name(),
           what, below.offset);
    }
    node = std::move(below);
  }
}

}  // namespace bitrift::h5map
