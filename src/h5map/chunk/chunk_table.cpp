#include "h5map/chunk/chunk_table.h"

#include <algorithm>
#include <array>
#include <variant>

#include "core/error.h"
#include "h5map/chunk/btree1.h"
#include "h5map/chunk/extensible_array.h"
#include "h5map/chunk/fixed_array.h"
#include "h5map/structure/btree2.h"

namespace bitrift::h5map {
namespace {

constexpr unsigned plain_type = 10;  // record types of version 2 B-trees of chunks
constexpr unsigned filtered_type = 11;

// Every kind of index answers these two questions with cells of the grid.
using CellVisitor = std::function<void(std::uint64_t cell, const ChunkEntry& entry)>;

/// Without an index: no chunk, one chunk, or all chunks one after another.
struct Computed {
  ChunkIndex kind = ChunkIndex::implicit;
  ChunkedLayout layout;
};

/// A version 2 B-tree of chunks.
struct Tree2 {
  BTree2 tree;
  EntryCode code;  // size of the fields before the position in a record
  std::size_t rank = 0;

  [[nodiscard]] ChunkEntry entry(const Source& source, const BTree2::Record& record) const {
    Cursor cursor(record.bytes, source.name(), "chunk record");
    ChunkEntry entry;
    entry.offset = place(source, code.frame, cursor.address(code.frame.offset_bytes), "a chunk");
    if (code.filtered) {
      entry.bytes = cursor.number(code.size_bytes());
      entry.mask = cursor.u32();
    }
    entry.entry_at = record.offset;
    entry.seal = record.seal;
    return entry;
  }
  void position(std::span<const std::uint8_t> record, std::span<std::uint64_t> out) const {
    Cursor cursor(record.subspan(code.entry_bytes), "", "chunk record");
    for (std::uint64_t& at : out) at = cursor.u64();
  }
};

Tree2 open_tree2(const Source& source, const Frame& frame, const ChunkedLayout& layout, bool filtered) {
  Tree2 tree{BTree2(source, frame, layout.address), {frame, 0, filtered}, layout.chunk.size()};
  const std::uint64_t position_bytes = 8 * layout.chunk.size();
  const unsigned wanted = filtered ? filtered_type : plain_type;
  if (tree.tree.type() != wanted || tree.tree.record_bytes() <= position_bytes) {
    fail(ErrorCode::bad_file,
         "{}: B-tree at byte {} has records of type {} and {} bytes, not those of its chunks", source.name(),
         layout.address, tree.tree.type(), tree.tree.record_bytes());
  }
  tree.code.entry_bytes = tree.tree.record_bytes() - static_cast<unsigned>(position_bytes);
  tree.code.check(source, filtered ? 1 : 0, filtered, "B-tree");
  return tree;
}

}  // namespace

struct ChunkTable::State {
  const Source* source;
  Frame frame;
  ChunkGrid grid;
  std::string where;
  bool has_filters = false;
  std::uint32_t all_filters = 0;  // a mask that skips every filter
  bool partial_unfiltered = false;
  std::variant<Computed, FixedArray, ExtensibleArray, Tree2, ChunkBTree1> index;

  void visit(const CellVisitor& each) const;
  [[nodiscard]] bool find(std::uint64_t cell, const CellVisitor& each) const;
  [[nodiscard]] ChunkEntry computed(const Computed& computed, std::uint64_t cell) const;
  void visit_sorted(const ChunkBTree1& tree, const CellVisitor& each) const;
  void visit_sorted(const Tree2& tree, const CellVisitor& each) const;
  void check_order(std::span<const std::uint64_t> position, std::vector<std::uint64_t>& last) const;
};

namespace {

auto open_index(const Source& source, const Frame& frame, const Layout& layout, const ChunkGrid& grid,
                const std::string& where)
    -> std::variant<Computed, FixedArray, ExtensibleArray, Tree2, ChunkBTree1> {
  const ChunkedLayout& chunked = layout.chunked;
  const bool filtered = !layout.filters.empty();
  Computed computed{chunked.index, chunked};
  if (chunked.address == undefined) return computed;
  switch (chunked.index) {
    case ChunkIndex::btree1:
      return ChunkBTree1(source, frame, chunked.address, chunked.chunk);
    case ChunkIndex::btree2:
      return open_tree2(source, frame, chunked, filtered);
    case ChunkIndex::extensible_array:
      return ExtensibleArray(source, frame, chunked.address, filtered);
    case ChunkIndex::fixed_array: {
      FixedArray array(source, frame, chunked.address, filtered);
      if (array.slots() != grid.slots()) {
        fail(ErrorCode::bad_file, "{}: the index has {} entries for {} chunks", where, array.slots(),
             grid.slots().value_or(0));
      }
      return array;
    }
    case ChunkIndex::implicit: {
      std::uint64_t bytes = 0;
      if (filtered || __builtin_mul_overflow(*grid.slots(), grid.chunk_bytes(), &bytes)) {
        fail(ErrorCode::bad_file, "{}: chunks without an index that are filtered or too many", where);
      }
      source.check(chunked.address, grid.count() == 0 ? 0 : bytes, "the chunks of a dataset");
      return computed;
    }
    case ChunkIndex::single:
      if (grid.slots() != 1)
        fail(ErrorCode::bad_file, "{}: one chunk is stored for {}", where, *grid.slots());
      return computed;
  }
  fail(ErrorCode::internal, "{}: unknown kind of chunk index", where);
}

}  // namespace

ChunkTable::ChunkTable(const Source& source, const Frame& frame, const Layout& layout,
                       std::span<const std::uint64_t> shape, std::span<const std::uint64_t> max_shape,
                       std::uint64_t element_bytes, const std::string& dataset) {
  const std::string where = source.name() + ": " + dataset;
  ChunkGrid grid(layout.chunked, shape, max_shape, element_bytes, where);
  auto index = open_index(source, frame, layout, grid, where);
  const std::size_t filters = layout.filters.size();
  const std::uint32_t all = filters >= 32 ? ~0U : (1U << filters) - 1U;
  state_ = std::make_unique<State>(State{&source, frame, std::move(grid), where, filters > 0, all,
                                         layout.chunked.partial_unfiltered, std::move(index)});
}

ChunkTable::~ChunkTable() = default;
ChunkTable::ChunkTable(ChunkTable&&) noexcept = default;
ChunkTable& ChunkTable::operator=(ChunkTable&&) noexcept = default;

const ChunkGrid& ChunkTable::grid() const noexcept { return state_->grid; }

ChunkEntry ChunkTable::State::computed(const Computed& computed, std::uint64_t cell) const {
  ChunkEntry entry;
  entry.offset = undefined;
  const ChunkedLayout& layout = computed.layout;
  if (layout.address == undefined) return entry;
  entry.bytes = grid.chunk_bytes();
  entry.offset = layout.address;
  if (computed.kind == ChunkIndex::implicit) {
    entry.offset += grid.slot(cell) * grid.chunk_bytes();
  } else if (has_filters) {
    entry.bytes = layout.single_bytes;
    entry.mask = layout.single_mask;
  }
  return entry;
}

/// Trees are sorted by position: a repeated position, or a step back, is damage.
void ChunkTable::State::check_order(std::span<const std::uint64_t> position,
                                    std::vector<std::uint64_t>& last) const {
  if (!last.empty() &&
      !std::lexicographical_compare(last.begin(), last.end(), position.begin(), position.end())) {
    fail(ErrorCode::bad_file, "{}: the index of its chunks is not in order", where);
  }
  last.assign(position.begin(), position.end());
}

void ChunkTable::State::visit_sorted(const ChunkBTree1& tree, const CellVisitor& each) const {
  std::vector<std::uint64_t> last;
  tree.visit([&](std::span<const std::uint64_t> position, const ChunkEntry& entry) {
    check_order(position, last);
    if (const auto cell = grid.cell(position)) each(*cell, entry);
  });
}

void ChunkTable::State::visit_sorted(const Tree2& tree, const CellVisitor& each) const {
  std::vector<std::uint64_t> last;
  std::vector<std::uint64_t> position(tree.rank);
  tree.tree.visit([&](const BTree2::Record& record) {
    tree.position(record.bytes, position);
    check_order(position, last);
    if (const auto cell = grid.cell(position)) each(*cell, tree.entry(*source, record));
  });
}

void ChunkTable::State::visit(const CellVisitor& each) const {
  const auto by_slot = [&](std::uint64_t slot, const ChunkEntry& entry) {
    if (entry.offset == undefined) return;
    if (const auto cell = grid.cell_of_slot(slot)) each(*cell, entry);
  };
  if (const auto* array = std::get_if<FixedArray>(&index)) {
    array->visit(by_slot);
  } else if (const auto* growing = std::get_if<ExtensibleArray>(&index)) {
    growing->visit(by_slot);
  } else if (const auto* tree = std::get_if<Tree2>(&index)) {
    visit_sorted(*tree, each);
  } else if (const auto* old = std::get_if<ChunkBTree1>(&index)) {
    visit_sorted(*old, each);
  } else {
    const auto& none = std::get<Computed>(index);
    if (none.layout.address == undefined) return;
    for (std::uint64_t cell = 0; cell < grid.count(); ++cell) each(cell, computed(none, cell));
  }
}

bool ChunkTable::State::find(std::uint64_t cell, const CellVisitor& each) const {
  const auto by_entry = [&](const std::optional<ChunkEntry>& entry) {
    if (!entry || entry->offset == undefined) return false;
    each(cell, *entry);
    return true;
  };
  if (const auto* array = std::get_if<FixedArray>(&index)) return by_entry(array->find(grid.slot(cell)));
  if (const auto* growing = std::get_if<ExtensibleArray>(&index))
    return by_entry(growing->find(grid.slot(cell)));
  if (const auto* none = std::get_if<Computed>(&index)) return by_entry(computed(*none, cell));
  const std::vector<std::uint64_t> position = grid.position(cell);
  if (const auto* tree = std::get_if<Tree2>(&index)) {
    std::vector<std::uint64_t> at(tree->rank);
    const auto compare = [&](std::span<const std::uint8_t> record) {
      tree->position(record, at);
      return std::lexicographical_compare_three_way(position.begin(), position.end(), at.begin(), at.end());
    };
    return tree->tree.find(compare,
                           [&](const BTree2::Record& record) { each(cell, tree->entry(*source, record)); });
  }
  return std::get<ChunkBTree1>(index).find(
      position, [&](std::span<const std::uint64_t>, const ChunkEntry& entry) { each(cell, entry); });
}

Chunk ChunkTable::checked(std::uint64_t cell, const ChunkEntry& entry) const {
  const State& state = *state_;
  Chunk chunk{cell, entry.offset, entry.bytes, entry.mask, state.has_filters, entry.entry_at, entry.seal};
  const std::uint64_t whole = state.grid.chunk_bytes();
  const bool cut = state.partial_unfiltered && state.grid.partial(cell);
  if (cut) chunk.filtered = false;
  // Without filters, only the version 1 B-tree states a size.
  if (!state.has_filters && !std::holds_alternative<ChunkBTree1>(state.index)) chunk.bytes = whole;
  if (chunk.offset == undefined || chunk.bytes == 0) {
    fail(ErrorCode::bad_file, "{}: chunk {} is stored in no bytes", state.where, cell);
  }
  const bool none_applied = state.has_filters && (entry.mask & state.all_filters) == state.all_filters;
  if ((!chunk.filtered || none_applied) && chunk.bytes != whole) {
    fail(ErrorCode::bad_file, "{}: chunk {} is stored in {} bytes without filters and has {}", state.where,
         cell, chunk.bytes, whole);
  }
  state.source->check(chunk.offset, chunk.bytes, "a chunk");
  return chunk;
}

std::optional<Chunk> ChunkTable::find(std::uint64_t cell) const {
  if (cell >= state_->grid.count()) return std::nullopt;
  std::optional<Chunk> found;
  (void)state_->find(cell, [&](std::uint64_t at, const ChunkEntry& entry) { found = checked(at, entry); });
  return found;
}

void ChunkTable::visit(const std::function<void(const Chunk&)>& each) const {
  state_->visit([&](std::uint64_t cell, const ChunkEntry& entry) { each(checked(cell, entry)); });
}

std::vector<Chunk> ChunkTable::all() const {
  std::vector<Chunk> chunks;
  visit([&](const Chunk& chunk) { chunks.push_back(chunk); });
  const auto by_cell = [](const Chunk& a, const Chunk& b) { return a.cell < b.cell; };
  if (!std::is_sorted(chunks.begin(), chunks.end(), by_cell))
    std::sort(chunks.begin(), chunks.end(), by_cell);
  return chunks;
}

ChunkFields ChunkTable::fields(const Chunk& chunk) const {
  const State& state = *state_;
  ChunkFields fields;
  if (const auto* none = std::get_if<Computed>(&state.index)) {
    if (none->kind != ChunkIndex::single) return fields;
    fields.address = none->layout.address_field;
    if (!state.has_filters) return fields;
    fields.bytes = none->layout.single_bytes_field;
    // The filter mask follows the size in the message (HDF5 file format 3.0, section IV.A.2.i).
    fields.mask = {fields.bytes.offset + fields.bytes.bytes, 4, fields.bytes.seal};
    return fields;
  }
  std::optional<Seal> seal;
  if (chunk.entry_seal != Seal{}) seal = chunk.entry_seal;
  const unsigned width = state.frame.offset_bytes;
  if (const auto* old = std::get_if<ChunkBTree1>(&state.index)) {
    fields.address = {chunk.entry_at + old->key_bytes(), width, seal};
    fields.bytes = {chunk.entry_at, 4, seal};
    fields.mask = {chunk.entry_at + 4, 4, seal};
    return fields;
  }
  fields.address = {chunk.entry_at, width, seal};
  if (!state.has_filters) return fields;
  unsigned size_bytes = 0;
  if (const auto* array = std::get_if<FixedArray>(&state.index)) size_bytes = array->code().size_bytes();
  if (const auto* growing = std::get_if<ExtensibleArray>(&state.index))
    size_bytes = growing->code().size_bytes();
  if (const auto* tree = std::get_if<Tree2>(&state.index)) size_bytes = tree->code.size_bytes();
  fields.bytes = {chunk.entry_at + width, size_bytes, seal};
  fields.mask = {fields.bytes.offset + size_bytes, 4, seal};
  return fields;
}

}  // namespace bitrift::h5map
