#include "h5map/message/layout_message.h"

#include <algorithm>

#include "core/error.h"
#include "h5map/structure/block.h"
#include "h5map/structure/heap.h"

namespace bitrift::h5map {
namespace {

constexpr std::string_view kLayout = "layout message";
constexpr std::string_view kFilters = "filter message";
constexpr std::string_view kExternal = "external files message";
constexpr unsigned most_layout_dimensions = 33;  // 32, and one for the size of an element
constexpr unsigned kPartialUnfiltered = 1, kSingleFiltered = 2;
// For an entry of a virtual dataset, version 1 (HDF5 2.0).
constexpr unsigned kSharedFile = 1, kSharedDataset = 2, kSameFile = 4;

class LayoutReader {
 public:
  LayoutReader(const Source& source, const Frame& frame, const Message& message)
      : source_(source), frame_(frame), message_(message), cursor_(message.body, source.name(), kLayout) {}

  Layout read() {
    version_ = cursor_.u8();
    if (version_ < 1 || version_ > 5) unknown("version", version_);
    version_ < 3 ? read_old() : read_new();
    return std::move(layout_);
  }

 private:
  [[noreturn]] void unknown(const char* what, unsigned value) const {
    fail(ErrorCode::unsupported, "{}: layout {} {} is unknown", source_.name(), what, value);
  }
  [[noreturn]] void bad(const std::string& text) const {
    fail(ErrorCode::bad_file, "{}: layout message at byte {} {}", source_.name(), message_.offset, text);
  }

  std::uint64_t address() { return place(source_, frame_, cursor_.address(frame_.offset_bytes), kLayout); }

  [[nodiscard]] Field field(unsigned bytes) const {
    return {message_.offset + cursor_.position(), bytes, message_.seal};
  }

  void read_old() {
    const unsigned rank = cursor_.u8();
    const unsigned kind = cursor_.u8();
    cursor_.skip(5);
    if (rank > most_layout_dimensions) bad(fmt::format("has {} dimensions", rank));
    if (kind == 2) {
      layout_.storage = Storage::chunked;
      read_tree_address();
      read_chunk_shape(rank, 4);
      return;
    }
    if (kind > 2) unknown("class", kind);
    if (kind == 1) layout_.offset = address();
    cursor_.skip(std::uint64_t{4} * rank);
    if (kind == 0) read_compact(4);
  }

  void read_new() {
    const unsigned kind = cursor_.u8();
    switch (kind) {
      case 0:
        read_compact(2);
        break;
      case 1:
        layout_.offset = address();
        layout_.bytes = cursor_.number(frame_.length_bytes);
        break;
      case 2:
        layout_.storage = Storage::chunked;
        version_ == 3 ? read_chunked_tree() : read_chunked();
        break;
      case 3:
        layout_.storage = Storage::virtual_source;
        layout_.offset = address();
        layout_.bytes = cursor_.u32();
        break;
      default:
        unknown("class", kind);
    }
  }

  void read_compact(unsigned size_bytes) {
    layout_.storage = Storage::compact;
    layout_.bytes = cursor_.number(size_bytes);
    layout_.offset = message_.offset + cursor_.position();
    layout_.seal = message_.seal;
    cursor_.skip(layout_.bytes);
    source_.note(layout_.offset, layout_.bytes, "raw data, compact");
  }

  void read_tree_address() {
    layout_.chunked.index = ChunkIndex::btree1;
    layout_.chunked.address_field = field(frame_.offset_bytes);
    layout_.chunked.address = address();
  }

  void read_chunked_tree() {
    const unsigned rank = cursor_.u8();
    read_tree_address();
    read_chunk_shape(rank, 4);
  }

  void read_chunked() {
    ChunkedLayout& chunked = layout_.chunked;
    const unsigned flags = cursor_.u8();
    if (flags > (kPartialUnfiltered | kSingleFiltered)) unknown("flags", flags);
    chunked.partial_unfiltered = (flags & kPartialUnfiltered) != 0;
    chunked.full_sizes = version_ == 5;
    const unsigned rank = cursor_.u8();
    const unsigned wide = cursor_.u8();
    if (wide == 0 || wide > 8) bad(fmt::format("has chunk dimensions of {} bytes", wide));
    read_chunk_shape(rank, wide);
    read_index(flags);
    chunked.address_field = field(frame_.offset_bytes);
    chunked.address = address();
  }

  void read_index(unsigned flags) {
    ChunkedLayout& chunked = layout_.chunked;
    switch (const unsigned kind = cursor_.u8()) {
      case 1:
        chunked.index = ChunkIndex::single;
        if ((flags & kSingleFiltered) == 0) break;
        chunked.single_bytes_field = field(frame_.length_bytes);
        chunked.single_bytes = cursor_.number(frame_.length_bytes);
        chunked.single_mask = cursor_.u32();
        break;
      case 2:
        chunked.index = ChunkIndex::implicit;
        break;
      case 3:
        chunked.index = ChunkIndex::fixed_array;
        cursor_.skip(1);
        break;
      case 4:
        chunked.index = ChunkIndex::extensible_array;
        cursor_.skip(5);
        break;
      case 5:
        chunked.index = ChunkIndex::btree2;
        cursor_.skip(6);
        break;
      default:
        unknown("chunk index", kind);
    }
  }

  void read_chunk_shape(unsigned rank, unsigned wide) {
    if (rank < 2 || rank > most_layout_dimensions) bad(fmt::format("has chunks of {} dimensions", rank));
    const std::uint64_t most = version_ == 5 ? undefined >> 1U : 0xffffffffU;
    std::uint64_t bytes = 1;
    for (unsigned i = 0; i < rank; ++i) {
      const std::uint64_t dimension = cursor_.number(wide);
      if (dimension == 0 || bytes > most / dimension) bad("has chunks of no possible size");
      bytes *= dimension;
      layout_.chunked.chunk.push_back(dimension);
    }
    layout_.chunked.element_bytes = layout_.chunked.chunk.back();
    layout_.chunked.chunk.pop_back();
  }

  const Source& source_;
  const Frame& frame_;
  const Message& message_;
  Cursor cursor_;
  unsigned version_ = 0;
  Layout layout_;
};

/// Text up to its zero.
std::string take_text(Cursor& cursor) {
  std::string text;
  for (std::uint8_t byte = cursor.u8(); byte != 0; byte = cursor.u8()) text += static_cast<char>(byte);
  return text;
}

std::span<const std::uint8_t> take_selection(Cursor& cursor, std::span<const std::uint8_t> all,
                                             const std::string& name) {
  const std::uint64_t first = cursor.position();
  const auto unknown = [&](unsigned kind, unsigned version) {
    fail(ErrorCode::unsupported,
         "{}: a virtual dataset has a selection of kind {}, version {}, which is unknown", name, kind,
         version);
  };
  const unsigned kind = cursor.u32();
  const unsigned version = cursor.u32();
  if (kind > 3) unknown(kind, version);
  if (kind == 0 || kind == 3 || version == 1) {
    cursor.skip(4);
    cursor.skip(cursor.u32());
  } else if (kind == 2 && version == 2) {
    cursor.skip(1);
    cursor.skip(cursor.u32());
  } else if (kind == 2 && version == 3) {
    const bool regular = (cursor.u8() & 1U) != 0;
    const std::uint64_t wide = cursor.u8();
    const std::uint64_t rank = cursor.u32();
    if (wide == 0 || wide > 8 || rank > 32) unknown(kind, version);
    const std::uint64_t blocks = regular ? 2 : cursor.number(static_cast<unsigned>(wide));
    if (blocks > cursor.left()) unknown(kind, version);
    cursor.skip(blocks * 2 * rank * wide);
  } else if (kind == 1 && version == 2) {
    const std::uint64_t wide = cursor.u8();
    const std::uint64_t rank = cursor.u32();
    if (wide == 0 || wide > 8 || rank > 32) unknown(kind, version);
    const std::uint64_t points = cursor.number(static_cast<unsigned>(wide));
    if (points > cursor.left()) unknown(kind, version);
    cursor.skip(points * rank * wide);
  } else {
    unknown(kind, version);
  }
  return all.subspan(first, cursor.position() - first);
}

}  // namespace

Layout parse_layout(const Source& source, const Frame& frame, const Message& message) {
  return LayoutReader(source, frame, message).read();
}

std::vector<Filter> parse_filters(const Source& source, const Message& message) {
  Cursor cursor(message.body, source.name(), kFilters);
  const unsigned version = cursor.u8();
  if (version != 1 && version != 2) {
    fail(ErrorCode::unsupported, "{}: filter message version {} is unknown", source.name(), version);
  }
  const unsigned count = cursor.u8();
  if (count > 32) fail(ErrorCode::bad_file, "{}: filter message lists {} filters", source.name(), count);
  if (version == 1) cursor.skip(6);
  std::vector<Filter> filters;
  for (unsigned i = 0; i < count; ++i) {
    Filter filter;
    filter.id = cursor.u16();
    const unsigned name_bytes = version == 1 || filter.id >= 256 ? cursor.u16() : 0;
    filter.optional = (cursor.u16() & 1U) != 0;
    const unsigned values = cursor.u16();
    // Version 1 pads names to eight bytes; some writers give the length before padding.
    const auto name = cursor.take(version == 1 ? (name_bytes + 7U) / 8 * 8 : name_bytes);
    filter.name.assign(name.begin(), std::find(name.begin(), name.end(), std::uint8_t{0}));
    for (unsigned j = 0; j < values; ++j) filter.values.push_back(cursor.u32());
    if (version == 1 && values % 2 == 1) cursor.skip(4);
    filters.push_back(std::move(filter));
  }
  return filters;
}

std::vector<ExternalSegment> parse_external(const Source& source, const Frame& frame,
                                            const Message& message) {
  Cursor cursor(message.body, source.name(), kExternal);
  if (const unsigned version = cursor.u8(); version != 1) {
    fail(ErrorCode::unsupported, "{}: external files message version {} is unknown", source.name(), version);
  }
  cursor.skip(5);
  const unsigned used = cursor.u16();
  const LocalHeap heap(source, frame, place(source, frame, cursor.address(frame.offset_bytes), kExternal));
  std::vector<ExternalSegment> segments;
  for (unsigned i = 0; i < used; ++i) {
    ExternalSegment segment;
    segment.file = heap.text(cursor.number(frame.length_bytes));
    segment.offset = cursor.number(frame.length_bytes);
    segment.bytes = cursor.address(frame.length_bytes);
    source.spend(segment.file.size());
    segments.push_back(std::move(segment));
  }
  return segments;
}

std::vector<VirtualSource> read_virtual_sources(const Source& source, const Frame& frame,
                                                const Layout& layout) {
  constexpr std::string_view what = "virtual dataset's sources";
  if (layout.offset == undefined) return {};
  const GlobalObject object =
      find_global_object(source, frame, layout.offset, static_cast<unsigned>(layout.bytes));
  const auto bytes = source.read(object.offset, object.bytes, what);
  if (bytes.size() < 4) fail(ErrorCode::bad_file, "{}: {} have no checksum", source.name(), what);
  const auto body = std::span(bytes).first(bytes.size() - 4);
  Cursor tail{std::span(bytes).last(4), source.name(), what};
  if (!sums_agree(tail.u32(), lookup3(body))) {
    fail(ErrorCode::bad_file, "{}: {} at byte {} have a wrong checksum; the file is damaged", source.name(),
         what, object.offset);
  }
  Cursor cursor(body, source.name(), what);
  const unsigned version = cursor.u8();
  if (version > 1) fail(ErrorCode::unsupported, "{}: {} have version {}", source.name(), what, version);
  const std::uint64_t count = cursor.number(frame.length_bytes);
  std::vector<VirtualSource> sources;
  for (std::uint64_t i = 0; i < count; ++i) {
    VirtualSource found;
    const unsigned flags = version == 1 ? cursor.u8() : 0;
    if (flags > 7) fail(ErrorCode::unsupported, "{}: {} have unknown flags {}", source.name(), what, flags);
    // A name that an earlier entry has is stored as the number of that entry.
    const auto earlier = [&]() -> const VirtualSource& {
      const std::uint64_t index = cursor.number(frame.length_bytes);
      if (index >= i)
        fail(ErrorCode::bad_file, "{}: {} refer to entry {} too early", source.name(), what, index);
      return sources[index];
    };
    found.file = (flags & kSameFile) != 0     ? "."
                 : (flags & kSharedFile) != 0 ? earlier().file
                                              : take_text(cursor);
    found.dataset = (flags & kSharedDataset) != 0 ? earlier().dataset : take_text(cursor);
    source.spend(found.file.size() + found.dataset.size());
    const auto from = take_selection(cursor, body, source.name());
    const auto to = take_selection(cursor, body, source.name());
    found.source_selection.assign(from.begin(), from.end());
    found.virtual_selection.assign(to.begin(), to.end());
    sources.push_back(std::move(found));
  }
  return sources;
}

}  // namespace bitrift::h5map
