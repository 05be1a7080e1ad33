#include "h5map/structure/btree2.h"

#include <bit>
#include <limits>
#include <unordered_set>

#include "core/error.h"

namespace bitrift::h5map {
namespace {

constexpr std::string_view btree2_header = "B-tree header";
constexpr std::string_view node_what = "B-tree node";
constexpr std::uint64_t node_prefix_bytes = 10;  // signature, version, type, checksum
// Every level at least doubles the number of records, and a file has fewer than 2^64.
constexpr unsigned deepest_btree2 = 64;

/// The number of bytes for numbers up to `limit`, in HDF5's way of counting.
unsigned width_of(std::uint64_t limit) {
  return limit == 0 ? 1 : (static_cast<unsigned>(std::bit_width(limit)) - 1) / 8 + 1;
}

std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max() : product;
}

}  // namespace

struct BTree2::Walk {
  const std::function<void(const Record&)>& each;
  std::unordered_set<std::uint64_t> seen;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;
};

BTree2::BTree2(const Source& source, const Frame& frame, std::uint64_t offset)
    : source_(&source), frame_(frame) {
  const Block block =
      read_block(source, offset, 22 + frame.offset_bytes + frame.length_bytes, "BTHD", btree2_header);
  Cursor cursor = block.body_of_version_0(source, btree2_header);
  type_ = cursor.u8();
  node_bytes_ = cursor.u32();
  record_bytes_ = cursor.u16();
  depth_ = cursor.u16();
  cursor.skip(2);  // percentages at which nodes split and merge
  root_.offset = place(source, frame, cursor.address(frame.offset_bytes), btree2_header);
  root_.records = cursor.u16();
  record_count_ = cursor.number(frame.length_bytes);
  if (record_bytes_ == 0 || depth_ > deepest_btree2 || node_bytes_ < node_prefix_bytes + record_bytes_) {
    fail(ErrorCode::bad_file, "{}: {} at byte {} claims depth {} and records of {} in nodes of {} bytes",
         source.name(), btree2_header, offset, depth_, record_bytes_, node_bytes_);
  }
  measure();
}

// The number of records that fit decides the width of the counts next to a pointer (section III.A.2, "Number
// of Records in Child Node").
void BTree2::measure() {
  Level leaf;
  leaf.most = leaf.most_all = (node_bytes_ - node_prefix_bytes) / record_bytes_;
  count_bytes_ = width_of(leaf.most);
  levels_ = {leaf};
  for (unsigned depth = 1; depth <= depth_; ++depth) {
    const Level& below = levels_.back();
    const std::uint64_t pointer = frame_.offset_bytes + count_bytes_ + below.all_bytes;
    Level level;
    if (node_bytes_ >= node_prefix_bytes + pointer) {
      level.most = (node_bytes_ - node_prefix_bytes - pointer) / (record_bytes_ + pointer);
    }
    const std::uint64_t under = saturating_product(level.most + 1, below.most_all);
    level.most_all =
        under > std::numeric_limits<std::uint64_t>::max() - level.most ? under : under + level.most;
    level.all_bytes = width_of(level.most_all);
    levels_.push_back(level);
  }
}

BTree2::Node BTree2::read_node(const Child& at, unsigned depth) const {
  if (at.offset == undefined || at.records > levels_[depth].most) {
    fail(ErrorCode::bad_file, "{}: {} claims {} records in a node of {} bytes that holds {}", source_->name(),
         node_what, at.records, node_bytes_, levels_[depth].most);
  }
  const unsigned all_bytes = depth > 0 ? levels_[depth - 1].all_bytes : 0;
  const std::uint64_t pointer = frame_.offset_bytes + count_bytes_ + all_bytes;
  const std::uint64_t pointers = depth > 0 ? at.records + 1 : 0;
  Node node;
  node.records = at.records;
  node.block =
      read_block(*source_, at.offset, node_prefix_bytes + at.records * record_bytes_ + pointers * pointer,
                 depth > 0 ? "BTIN" : "BTLF", node_what);
  Cursor cursor = node.block.body(*source_, node_what);
  if (cursor.u8() != 0 || cursor.u8() != type_) {
    fail(ErrorCode::bad_file, "{}: {} at byte {} is not of its tree's kind", source_->name(), node_what,
         at.offset);
  }
  cursor.skip(at.records * record_bytes_);
  for (std::uint64_t i = 0; i < pointers; ++i) {
    Child child;
    child.offset = place(*source_, frame_, cursor.address(frame_.offset_bytes), node_what);
    child.records = cursor.number(count_bytes_);
    cursor.skip(all_bytes);
    node.children.push_back(child);
  }
  return node;
}

BTree2::Record BTree2::record(const Node& node, std::uint64_t index) const {
  const std::uint64_t at = 6 + index * record_bytes_;
  return {std::span(node.block.bytes).subspan(at, record_bytes_), node.block.offset + at, node.block.seal()};
}

void BTree2::visit_node(const Child& at, unsigned depth, Walk& walk) const {
  if (!walk.seen.insert(at.offset).second) {
    fail(ErrorCode::bad_file, "{}: {} at byte {} hangs in its tree twice", source_->name(), node_what,
         at.offset);
  }
  const Node node = read_node(at, depth);
  walk.bytes += node.block.bytes.size();
  if (walk.bytes > source_->size()) {
    fail(ErrorCode::bad_file, "{}: the nodes of a B-tree overlap (one at byte {})", source_->name(),
         at.offset);
  }
  for (std::uint64_t i = 0; i < node.records; ++i) {
    if (depth > 0) visit_node(node.children[i], depth - 1, walk);
    walk.each(record(node, i));
  }
  if (depth > 0) visit_node(node.children.back(), depth - 1, walk);
  walk.records += node.records;
}

void BTree2::visit(const std::function<void(const Record&)>& each) const {
  Walk walk{each, {}, 0, 0};
  if (root_.offset != undefined) visit_node(root_, depth_, walk);
  if (walk.records != record_count_) {
    fail(ErrorCode::bad_file, "{}: a B-tree claims {} records and holds {}", source_->name(), record_count_,
         walk.records);
  }
}

bool BTree2::find(const std::function<std::strong_ordering(std::span<const std::uint8_t>)>& compare,
                  const std::function<void(const Record&)>& found) const {
  if (root_.offset == undefined) return false;
  Child at = root_;
  for (unsigned depth = depth_;; --depth) {
    const Node node = read_node(at, depth);
    std::uint64_t low = 0;
    std::uint64_t high = node.records;
    while (low < high) {
      const std::uint64_t middle = (low + high) / 2;
      const Record candidate = record(node, middle);
      const std::strong_ordering order = compare(candidate.bytes);
      if (order == std::strong_ordering::equal) {
        found(candidate);
        return true;
      }
      if (order == std::strong_ordering::less) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    if (depth == 0) return false;
    at = node.children[low];
  }
}

}  // namespace bitrift::h5map
