#include "ckpt/reader.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include <fcntl.h>

#include "ckpt/dialect/outline.h"
#include "ckpt/format/units.h"
#include "ckpt/set/open_checkpoint.h"
#include "core/error.h"
#include "core/file_run.h"

namespace bitrift::ckpt {
namespace {

// The sum over the names, of which a file has one for each tensor.
constexpr std::uint64_t kMostChecksumBytes = std::uint64_t{256} << 20U;

/// Stored elements as values in little-endian order.
void to_values(const TensorInfo& tensor, std::uint8_t* data, std::size_t bytes) {
  const std::size_t width = tensor.element_bytes;
  if (width == 0) return;
  if (tensor.order == ByteOrder::big) {
    for (std::size_t at = 0; at + width <= bytes; at += width) std::reverse(data + at, data + at + width);
  }
  if (!tensor.negated) return;
  for (std::size_t end = width; end <= bytes; end += width) data[end - 1] ^= 0x80U;
}

const std::string& primary_of(const TensorInfo& tensor) {
  return tensor.alias_of.empty() ? tensor.path : tensor.alias_of;
}

const TensorInfo* among(const std::vector<TensorInfo>& sorted, std::string_view path) {
  const auto at =
      std::lower_bound(sorted.begin(), sorted.end(), path,
                       [](const TensorInfo& tensor, std::string_view name) { return tensor.path < name; });
  return at != sorted.end() && at->path == path ? &*at : nullptr;
}

}  // namespace

struct Reader::State {
  explicit State(std::filesystem::path file_path)
      : path(std::move(file_path)), container(open_checkpoint(path)), files{path} {
    if (const FileList* const several = container->files()) files = *several;
    std::vector<Block> found = container->blocks();
    attributes = container->root_texts();
    std::vector<ckpt::Dataset> names;
    names.reserve(found.size());
    for (const Block& block : found) {
      names.push_back({block.path, block.shape, block.tensors.empty() ? "" : block.tensors.front().dtype});
    }
    const auto texts = [this](const std::string& group, const std::string& attribute) {
      return container->texts(group, attribute);
    };
    outline = outline_of(names, texts, container->written_order());
    tensors.reserve(found.size());
    blocks.reserve(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (TensorInfo& tensor : found[i].tensors) {
        tensor.role = outline.roles[i];
        tensor.layer = outline.layers[i];
        if (tensor.role != "checksum") continue;
        tensor.refusal = "checksums follow from the tensors; alter a tensor instead";
        tensor.refused_by_type = false;
      }
      take(std::move(found[i]), tensors, block_of);
    }
    sort(tensors, block_of, {});
    // The same elements have one role, whatever their names are.
    for (TensorInfo& tensor : tensors) {
      if (tensor.alias_of.empty()) continue;
      if (const TensorInfo* const primary = among(tensors, tensor.alias_of)) tensor.role = primary->role;
    }
  }

  void take(Block block, std::vector<TensorInfo>& list, std::vector<std::size_t>& blocks_of_list) {
    for (TensorInfo& tensor : block.tensors) {
      list.push_back(std::move(tensor));
      blocks_of_list.push_back(blocks.size());
    }
    blocks.push_back(std::move(block.values));
  }

  static void sort(std::vector<TensorInfo>& list, std::vector<std::size_t>& blocks_of_list,
                   const std::vector<TensorInfo>& taken) {
    make_unique(list, [&](const std::string& name) { return among(taken, name) != nullptr; });
    const auto out_of_order = [](const TensorInfo& a, const TensorInfo& b) { return b.path < a.path; };
    if (std::adjacent_find(list.begin(), list.end(), out_of_order) == list.end()) return;
    std::vector<std::size_t> order(list.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return list[a].path < list[b].path; });
    std::vector<TensorInfo> sorted;
    std::vector<std::size_t> sorted_blocks;
    sorted.reserve(list.size());
    sorted_blocks.reserve(list.size());
    for (const std::size_t i : order) {
      sorted.push_back(std::move(list[i]));
      sorted_blocks.push_back(blocks_of_list[i]);
    }
    list = std::move(sorted);
    blocks_of_list = std::move(sorted_blocks);
  }

  std::filesystem::path path;
  std::unique_ptr<Container> container;
  FileList files;
  std::map<std::string, std::string> attributes;
  std::vector<std::unique_ptr<Values>> blocks;
  std::vector<TensorInfo> tensors;
  std::vector<std::size_t> block_of;  // of each tensor
  std::vector<TensorInfo> attribute_tensors;
  std::vector<std::size_t> attribute_block_of;
  Outline outline;
  std::once_flag layers_once;
  LayerList layers;
  std::once_flag attributes_once;
  std::once_flag checksums_once;
  std::map<std::string, StoredChecksum, std::less<>> checksums;
};

Reader::Reader(std::filesystem::path path) : state_(std::make_unique<State>(std::move(path))) {}
Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;

const std::filesystem::path& Reader::path() const noexcept { return state_->path; }
const std::vector<TensorInfo>& Reader::tensors() const noexcept { return state_->tensors; }
void Reader::leave_out(const std::vector<std::string>& paths) {
  const std::set<std::string> names(paths.begin(), paths.end());
  for (TensorInfo& tensor : state_->tensors)
    tensor.left_out = tensor.left_out || names.contains(primary_of(tensor));
}
const std::string& Reader::layout() const noexcept { return state_->outline.layout; }
const LayerList& Reader::layers() const {
  std::call_once(state_->layers_once, [this] { state_->layers = LayerList(state_->outline); });
  return state_->layers;
}
const std::map<std::string, std::string>& Reader::attributes() const noexcept { return state_->attributes; }

FileFormat Reader::format() const noexcept { return state_->container->format(); }
Container& Reader::container() const noexcept { return *state_->container; }
const FileList& Reader::files() const noexcept { return state_->files; }

const std::vector<TensorInfo>& Reader::attribute_tensors() const {
  State& state = *state_;
  std::call_once(state.attributes_once, [&] {
    for (Block& block : state.container->attribute_blocks()) {
      state.take(std::move(block), state.attribute_tensors, state.attribute_block_of);
    }
    // An attribute may be spelled like a dataset's path; then the dataset keeps the path.
    State::sort(state.attribute_tensors, state.attribute_block_of, state.tensors);
  });
  return state.attribute_tensors;
}

const TensorInfo* Reader::find(std::string_view path) const {
  const TensorInfo* const found = among(state_->tensors, path);
  if (found != nullptr || path.find('@') == std::string_view::npos) return found;
  return among(attribute_tensors(), path);
}

std::optional<std::string> Reader::text_of(const TensorInfo& attribute) const {
  return state_->container->text_of(attribute.path);
}

std::size_t Reader::block(const TensorInfo& tensor) const {
  const TensorInfo* const known = find(tensor.path);
  if (known == nullptr) {
    fail(ErrorCode::internal, "{}: {}: is not a tensor of this file", state_->path.string(), tensor.path);
  }
  const auto& all = known->attribute ? state_->attribute_tensors : state_->tensors;
  const auto& blocks = known->attribute ? state_->attribute_block_of : state_->block_of;
  return blocks[static_cast<std::size_t>(known - all.data())];
}

const Values& Reader::values(const TensorInfo& tensor) const { return *state_->blocks[block(tensor)]; }

void Reader::read(const TensorInfo& tensor, void* out, std::size_t bytes) const {
  const TensorInfo* const known = find(tensor.path);
  const std::string where = state_->path.string() + ": " + tensor.path;
  if (known == nullptr) fail(ErrorCode::internal, "{}: is not a tensor of this file", where);
  if (!known->plain) fail(ErrorCode::unsupported, "{}: type {} cannot be read as bytes", where, known->dtype);
  if (known->elements() * known->element_bytes != bytes) {
    fail(ErrorCode::internal, "{}: asked for {} bytes of {} x {}", where, bytes, known->elements(),
         known->element_bytes);
  }
  read_elements(tensor, 0, known->elements(), out);
}

void Reader::read_elements(const TensorInfo& tensor, std::uint64_t first, std::uint64_t count,
                           void* out) const {
  const TensorInfo* const known = find(tensor.path);
  if (known == nullptr || first > known->elements() || count > known->elements() - first) {
    fail(ErrorCode::internal, "{}: {}: elements {} + {} are not there to be read", state_->path.string(),
         tensor.path, first, count);
  }
  auto* const bytes = static_cast<std::uint8_t*>(out);
  const std::size_t size = count * known->element_bytes;
  if (known->whole()) {
    values(*known).read(first * known->element_bytes, {bytes, size});
  } else if (known->row_bytes == 0) {
    read_steps(*known, first, count, bytes);
  } else {
    read_members(*known, first, count, bytes);
  }
  to_values(*known, bytes, size);
}

/// Reads whole rows, a megabyte at a time, and extracts the member's part from each.
void Reader::read_members(const TensorInfo& tensor, std::uint64_t first, std::uint64_t count,
                          std::uint8_t* out) const {
  if (count == 0) return;
  const Values& all = values(tensor);
  const std::uint64_t rows_a_piece = std::max<std::uint64_t>((std::uint64_t{1} << 20U) / tensor.row_bytes, 1);
  std::vector<std::uint8_t> rows;
  std::uint64_t held_first = 0, held_end = 0;
  const std::uint64_t last_row = (first + count - 1) / tensor.per_row;
  for (std::uint64_t i = first; i < first + count; ++i, out += tensor.element_bytes) {
    const std::uint64_t row = i / tensor.per_row;
    if (row >= held_end) {
      held_first = row;
      held_end = std::min(row + rows_a_piece, last_row + 1);
      rows.resize((held_end - held_first) * tensor.row_bytes);
      all.read(held_first * tensor.row_bytes, rows);
    }
    std::memcpy(out, rows.data() + (tensor.byte_of(i) - held_first * tensor.row_bytes), tensor.element_bytes);
  }
}

/// Elements that are close together are read in one piece, others one by one.
void Reader::read_steps(const TensorInfo& tensor, std::uint64_t first, std::uint64_t count,
                        std::uint8_t* out) const {
  constexpr std::uint64_t most_span = std::uint64_t{64} << 20U;
  constexpr std::uint64_t most_between = 64;  // bytes read for each byte that is wanted
  const Values& all = values(tensor);
  const std::uint64_t width = tensor.element_bytes;
  std::uint64_t low = ~std::uint64_t{0}, high = 0;
  for (std::uint64_t i = first; i < first + count; ++i) {
    low = std::min(low, tensor.byte_of(i));
    high = std::max(high, tensor.byte_of(i) + width);
  }
  const bool close = count > 0 && high - low <= most_span && (high - low) / most_between <= count * width;
  std::vector<std::uint8_t> span(close ? high - low : 0);
  if (close) all.read(low, span);
  for (std::uint64_t i = first; i < first + count; ++i, out += width) {
    const std::uint64_t at = tensor.byte_of(i);
    if (close) {
      std::memcpy(out, span.data() + (at - low), width);
    } else {
      all.read(at, {out, width});
    }
  }
}

void Reader::read_from_copy(const std::filesystem::path& copy, const TensorInfo& tensor, void* out,
                            std::size_t bytes) const {
  const TensorInfo* const known = find(tensor.path);
  if (known == nullptr || !known->offset || bytes != known->elements() * known->element_bytes) {
    fail(ErrorCode::internal, "{}: {}: {} bytes are not there to be read", state_->path.string(), tensor.path,
         bytes);
  }
  FileRun(state_->files.in(copy), O_RDONLY).read(out, bytes, *known->offset);
  to_values(*known, static_cast<std::uint8_t*>(out), bytes);
}

std::optional<std::string> Reader::attribute(const std::string& name) const {
  const auto at = state_->attributes.find(name);
  if (at == state_->attributes.end()) return std::nullopt;
  return at->second;
}

std::optional<Reader::StoredChecksum> Reader::checksum(std::string_view path) const {
  std::call_once(state_->checksums_once, [this] {
    const TensorInfo* const names = find("checksum/path");
    const TensorInfo* const sums = find("checksum/crc32c");
    if (names == nullptr && sums == nullptr) return;
    const NumberFormat expected = number_format("uint32").value();
    const auto fits = [&] {
      if (names == nullptr || sums == nullptr || names->dtype != "string" || !sums->format) return false;
      NumberFormat format = *sums->format;
      format.order = expected.order;
      const bool readable = values(*names).unreadable().empty() && values(*sums).unreadable().empty();
      const bool small =
          names->elements() <= kMostChecksumBytes / std::max<std::uint64_t>(names->element_bytes, 4);
      return readable && small && format == expected && names->elements() == sums->elements();
    };
    if (!fits()) {
      fail(ErrorCode::bad_file, "{}: checksum/path and checksum/crc32c do not belong together",
           state_->path.string());
    }
    std::vector<char> text(names->elements() * names->element_bytes);
    std::vector<std::uint8_t> values(sums->elements() * 4);
    read(*names, text.data(), text.size());
    read(*sums, values.data(), values.size());
    for (std::uint64_t i = 0; i < sums->elements(); ++i) {
      std::string name(text.data() + i * names->element_bytes, names->element_bytes);
      name.resize(name.find_last_not_of('\0') + 1);
      const auto value = static_cast<std::uint32_t>(load_pattern(expected, values.data() + i * 4));
      state_->checksums[name] = {value, i};
    }
  });
  const auto at = state_->checksums.find(path);
  if (at != state_->checksums.end()) return at->second;
  // It may be listed under another name of the same elements.
  const TensorInfo* const tensor = among(state_->tensors, path);
  if (tensor == nullptr || state_->checksums.empty()) return std::nullopt;
  const std::string& primary = primary_of(*tensor);
  for (const TensorInfo& other : state_->tensors) {
    const auto listed = state_->checksums.find(other.path);
    if (listed != state_->checksums.end() && primary_of(other) == primary) return listed->second;
  }
  return std::nullopt;
}

}  // namespace bitrift::ckpt
