#include "h5map/h5_file.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "h5map/bookkeeping.h"
#include "h5map/chunk/chunk_table.h"
#include "h5map/message/layout_message.h"
#include "h5map/message/link.h"
#include "h5map/message/shared_message.h"
#include "h5map/structure/object_header.h"

namespace bitrift::h5map {
namespace {

constexpr std::size_t deepest_group = 256;
constexpr std::uint64_t kLargest = std::uint64_t{64} << 20U;  // bytes of one structure

/// While it exists, counts the bytes that are read and kept, and stops a reader that the file leads over the
/// same bytes again and again, or into one huge structure (a file with holes can be as large as it likes).
/// Sound files stay far below the limit: every structure is read once or twice, and the largest are heaps and
/// headers of a few megabytes.
class Meter {
 public:
  Meter(const Source& source, Structures* map) : source_(source), map_(map) {
    left_ = kLargest + 8 * std::min(source.size(), 2 * kLargest);
    source_.watch([this](std::uint64_t offset, std::uint64_t count, std::string_view what) {
      if (count > kLargest) {
        fail(ErrorCode::bad_file, "{}: {} at byte {} says that it has {} bytes; that is too large to be true",
             source_.name(), what, offset, count);
      }
      charge(count + 32);
      if (map_ == nullptr || what.empty()) return;
      map_->add(offset, count, what);
      charge(Structures::bytes_of_one);
    });
  }
  ~Meter() { source_.watch({}); }
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  void charge(std::uint64_t bytes) {
    exhausted_ = exhausted_ || bytes > left_;
    if (exhausted_) {
      fail(ErrorCode::bad_file,
           "{}: to read its structures takes more than a file of its size can need; the file is damaged",
           source_.name());
    }
    left_ -= bytes;
  }
  [[nodiscard]] bool exhausted() const noexcept { return exhausted_; }

 private:
  const Source& source_;
  Structures* map_;
  std::uint64_t left_ = 0;
  bool exhausted_ = false;
};

/// The text of an error without the name of the file, with which every error of this room begins.
std::string without_name(const Error& error, const Source& source) {
  const std::string text = error.what();
  const std::string prefix = source.name() + ": ";
  return text.rfind(prefix, 0) == 0 ? text.substr(prefix.size()) : text;
}

/// Why a layout does not fit type and shape; "" when it does. Sets the bytes of contiguous storage that a
/// layout message of version 1 or 2 leaves open.
std::string misfit(Dataset& dataset, std::uint64_t file_bytes) {
  Layout& layout = dataset.layout;
  const std::uint64_t count = dataset.space.element_count();
  if (count > undefined / dataset.type->bytes) return "its size overflows 64 bits";
  const std::uint64_t bytes = count * dataset.type->bytes;
  if (layout.storage == Storage::chunked) {
    if (layout.chunked.chunk.size() != dataset.space.shape.size()) {
      return fmt::format("its chunks have {} dimensions, it has {}", layout.chunked.chunk.size(),
                         dataset.space.shape.size());
    }
    if (layout.chunked.element_bytes != dataset.type->bytes) {
      return fmt::format("its chunks have elements of {} bytes, it has such of {}",
                         layout.chunked.element_bytes, dataset.type->bytes);
    }
    return "";
  }
  if (layout.storage != Storage::contiguous && layout.storage != Storage::compact) return "";
  if (layout.offset == undefined) return "";
  if (layout.storage == Storage::contiguous && layout.bytes == 0) layout.bytes = bytes;
  if (layout.offset > file_bytes || layout.bytes > file_bytes - layout.offset) {
    return fmt::format("its {} bytes at {} lie outside of the file of {} bytes", layout.bytes, layout.offset,
                       file_bytes);
  }
  if (layout.bytes != bytes) {
    return fmt::format("its shape asks for {} bytes, but {} are stored", bytes, layout.bytes);
  }
  return "";
}

}  // namespace

struct File::State {
  explicit State(Source from) : source(std::move(from)), superblock(load(source)) {}

  static Superblock load(const Source& source) {
    const Meter meter(source, nullptr);
    return read_superblock(source);
  }

  Source source;
  Superblock superblock;
  bool walked = false;
  std::vector<Dataset> datasets;
  std::vector<Group> groups;
};

/// One pass over the groups and datasets of a file.
class File::Walk {
 public:
  Walk(const Source& source, const Superblock& superblock, Structures* map)
      : source_(source),
        superblock_(superblock),
        meter_(source, map),
        map_(map),
        shared_(source, superblock) {}

  /// A worklist instead of recursion: the depth of a file cannot be trusted.
  void run() {
    seen_.insert(superblock_.root);
    std::vector<Open> open{{"", 0, superblock_.root}};
    while (!open.empty()) {
      const Open group = std::move(open.back());
      open.pop_back();
      std::vector<Open> children;
      try {
        if (group.depth > deepest_group) {
          fail(ErrorCode::bad_file, "{}: groups are nested more than {} deep", source_.name(), deepest_group);
        }
        own(group.path);
        const ObjectHeader header = read_object_header(source_, superblock_.frame, group.header);
        groups.push_back({group.path, group.header});
        see(header);
        visit_links(group, header, children);
      } catch (const Error& error) {
        if (meter_.exhausted()) throw;
        fail(error.code(), "{}: group /{}: {}", source_.name(), one_line(group.path),
             without_name(error, source_));
      }
      open.insert(open.end(), std::make_move_iterator(children.rbegin()),
                  std::make_move_iterator(children.rend()));
    }
    for (Dataset& dataset : datasets) {
      const auto names = other_names_.find(dataset.header);
      if (names != other_names_.end()) dataset.other_paths = {names->second.begin(), names->second.end()};
    }
    std::sort(datasets.begin(), datasets.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  }

  std::vector<Dataset> datasets;
  std::vector<Group> groups;

 private:
  struct Open {
    std::string path;
    std::size_t depth = 0;
    std::uint64_t header = 0;
  };

  void own(const std::string& path) {
    if (map_ != nullptr) map_->set_owner("/" + path);
  }

  void visit_links(const Open& group, const ObjectHeader& header, std::vector<Open>& children) {
    if (!is_group(header)) {
      fail(ErrorCode::bad_file, "{}: object header at byte {} is that of no group", source_.name(),
           group.header);
    }
    const std::vector<Link> links = read_links(source_, superblock_, header);
    const auto first = first_links(links);
    const auto path_of = [&](const Link& link) {
      return group.depth == 0 ? link.name : group.path + "/" + link.name;
    };
    for (const Link& link : links) {
      if (link.kind != Link::Kind::hard) continue;
      const bool seen = !seen_.insert(link.header).second;
      if (!seen) {
        const std::string path = path_of(*first.at(link.header));
        meter_.charge(path.size() + sizeof(Dataset));
        named_.insert(path);
        visit(path, link.header, group.depth + 1, children);
      }
      const std::string own_path = path_of(link);
      if (named_.contains(own_path)) continue;
      meter_.charge(own_path.size() + sizeof(Dataset));
      other_names_[link.header].insert(own_path);
    }
    own(group.path);
  }

  void visit(const std::string& path, std::uint64_t at, std::size_t depth, std::vector<Open>& children) {
    Dataset dataset;
    dataset.path = path;
    dataset.header = at;
    try {
      own(path);
      const ObjectHeader header = read_object_header(source_, superblock_.frame, at);
      if (is_group(header)) {
        children.push_back({path, depth, at});
        return;
      }
      const bool has_type = header.find(message::datatype) != nullptr;
      const bool has_space = header.find(message::dataspace) != nullptr;
      if (has_type && !has_space && header.find(message::layout) == nullptr) {
        // Objects of that type may have been read before, and may have noted this header as theirs.
        if (map_ != nullptr) map_->prevail();
        see(header);
        return;  // a committed datatype
      }
      describe(header, dataset);
      see_values(dataset);
      see(header);
    } catch (const Error& error) {
      if (meter_.exhausted()) throw;
      dataset.problem = without_name(error, source_);
    }
    datasets.push_back(std::move(dataset));
  }

  const Message& need(const ObjectHeader& header, unsigned type, const char* what) const {
    if (const Message* found = header.find(type)) return *found;
    fail(ErrorCode::bad_file, "{}: object header at byte {} has no {}", source_.name(), header.offset, what);
  }

  void describe(const ObjectHeader& header, Dataset& dataset) {
    dataset.space = shared_.dataspace(need(header, message::dataspace, "dataspace"));
    dataset.type = shared_.datatype(need(header, message::datatype, "datatype"));
    for (const unsigned type : {message::fill, message::old_fill}) {
      const Message* fill = header.find(type);
      if (fill != nullptr && dataset.fill.empty()) dataset.fill = fill_of(shared_.resolve(*fill));
    }
    if (dataset.fill.size() != dataset.type->bytes) dataset.fill.clear();
    dataset.layout = parse_layout(source_, superblock_.frame, need(header, message::layout, "layout"));
    Layout& layout = dataset.layout;
    if (const Message* filters = header.find(message::filters)) {
      layout.filters = parse_filters(source_, shared_.resolve(*filters));
      dataset.type_message = shared_.resolve(need(header, message::datatype, "datatype")).body;
      meter_.charge(dataset.type_message.size());
    }
    if (const Message* external = header.find(message::external)) {
      layout.storage = Storage::external;
      layout.external = parse_external(source_, superblock_.frame, *external);
    } else if (layout.storage == Storage::virtual_source) {
      layout.virtual_sources = read_virtual_sources(source_, superblock_.frame, layout);
    }
    dataset.problem = misfit(dataset, source_.size());
  }

  /// The value in a fill value message (HDF5 file format 3.0, sections IV.A.2.e and f); empty when there is
  /// none.
  [[nodiscard]] std::vector<std::uint8_t> fill_of(const Message& message) const {
    Cursor cursor(message.body, source_.name(), "fill value");
    bool defined = true;
    if (message.type != message::old_fill) {
      const unsigned version = cursor.u8();
      if (version == 3) {
        defined = (cursor.u8() & 0x20U) != 0;
      } else if (version == 1 || version == 2) {
        cursor.skip(2);
        defined = cursor.u8() != 0;
      } else {
        fail(ErrorCode::unsupported, "{}: fill value version {} is unknown", source_.name(), version);
      }
    }
    if (!defined || cursor.left() < 4) return {};
    const auto value = cursor.take(cursor.u32());
    return {value.begin(), value.end()};
  }

  /// For the map: notes everything else that belongs to the object.
  void see(const ObjectHeader& header) {
    if (map_ == nullptr) return;
    (void)read_attributes(source_, superblock_.frame, shared_, header);
    see_bookkeeping(source_, superblock_.frame, header);
  }

  void see_values(const Dataset& dataset) {
    const Layout& layout = dataset.layout;
    if (map_ == nullptr || !dataset.problem.empty()) return;
    if (layout.storage == Storage::contiguous && layout.offset != undefined) {
      map_->add(layout.offset, layout.bytes, "raw data, contiguous");
    } else if (layout.storage == Storage::chunked && layout.chunked.address != undefined) {
      const ChunkTable table(source_, superblock_.frame, layout, dataset.space.shape, dataset.space.max_shape,
                             dataset.type->bytes, dataset.path);
      table.visit([&](const Chunk& chunk) {
        meter_.charge(Structures::bytes_of_one);
        map_->add(chunk.offset, chunk.bytes, "raw data, chunk");
      });
    }
  }

  const Source& source_;
  const Superblock& superblock_;
  Meter meter_;
  Structures* map_;
  SharedMessages shared_;
  std::set<std::uint64_t> seen_;
  std::set<std::string> named_;                                 // paths under which objects were visited
  std::map<std::uint64_t, std::set<std::string>> other_names_;  // by the object's header
};

File::File(const std::filesystem::path& path) : File(Source(path)) {}

File::File(Source source) : state_(std::make_unique<State>(std::move(source))) {}

File::~File() = default;
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;

const Source& File::source() const noexcept { return state_->source; }
const Superblock& File::superblock() const noexcept { return state_->superblock; }

const std::vector<Dataset>& File::datasets() const& {
  if (!state_->walked) {
    Walk walk(state_->source, state_->superblock, nullptr);
    walk.run();
    state_->datasets = std::move(walk.datasets);
    state_->groups = std::move(walk.groups);
    state_->walked = true;
  }
  return state_->datasets;
}

const std::vector<Group>& File::groups() const& {
  (void)datasets();
  return state_->groups;
}

std::vector<Attribute> File::attributes(std::uint64_t header) const {
  const Meter meter(state_->source, nullptr);
  SharedMessages shared(state_->source, state_->superblock);
  return read_attributes(state_->source, frame(), shared,
                         read_object_header(state_->source, frame(), header));
}

std::map<std::string, std::string> File::root_texts() const {
  std::map<std::string, std::string> texts;
  const std::vector<Attribute> all = attributes(superblock().root);
  const Meter meter(state_->source, nullptr);
  for (const Attribute& attribute : all) {
    if (auto text = attribute_text(state_->source, frame(), attribute)) {
      texts.emplace(attribute.name, std::move(*text));
    }
  }
  return texts;
}

std::vector<std::string> File::texts(const std::string& group, const std::string& attribute) const {
  for (const Group& one : groups()) {
    if (one.path != group) continue;
    try {
      for (const Attribute& found : attributes(one.header)) {
        if (found.name != attribute) continue;
        const Meter meter(state_->source, nullptr);
        return attribute_texts(state_->source, frame(), found);
      }
    } catch (const Error& error) {
      if (error.code() == ErrorCode::io) throw;
      return {};  // the code that lists the attributes reports the damage
    }
  }
  return {};
}

void File::look_at_everything(Structures& map) const {
  map.add(0, superblock().offset, "user block");
  {
    const Meter meter(state_->source, &map);
    (void)read_superblock(state_->source);
    see_bookkeeping(state_->source, superblock());
  }
  Walk walk(state_->source, state_->superblock, &map);
  walk.run();
}

std::vector<Clash> File::clashes() const {
  Structures map;
  look_at_everything(map);
  return map.clashes();
}

StructureMap File::structures() const {
  Structures map;
  look_at_everything(map);
  note_global_heaps(state_->source, frame(), map);
  return std::move(map).map(state_->source.size());
}

}  // namespace bitrift::h5map
