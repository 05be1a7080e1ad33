#include "ckpt/reader.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <fcntl.h>

#include "ckpt/outline.h"
#include "core/error.h"
#include "core/file.h"
#include "h5/file.h"

namespace bitrift::ckpt {
namespace {

std::string storage_name(const h5::DatasetInfo& dataset) {
  std::string name;
  switch (dataset.layout) {
    case h5::Layout::contiguous:
      name = "contiguous";
      break;
    case h5::Layout::compact:
      name = "compact";
      break;
    case h5::Layout::chunked:
      name = "chunked";
      break;
    case h5::Layout::virtual_source:
      name = "virtual";
      break;
    case h5::Layout::external:
      name = "external";
      break;
    case h5::Layout::unknown:
      name = "unknown";
      break;
  }
  return dataset.filtered ? name + "+filters" : name;
}

/// Why a tensor cannot be altered; "" when it can.
std::string refusal_of(const TensorInfo& tensor, const h5::DatasetInfo& dataset) {
  if (tensor.role == "checksum") return "checksums follow from the tensors; alter a tensor instead";
  if (!dataset.problem.empty()) return dataset.problem;
  if (dataset.layout != h5::Layout::contiguous) {
    return "its storage is " + tensor.storage + ", and only contiguous storage can be altered";
  }
  if (tensor.elements() == 0) return "it has no elements";
  if (!tensor.offset) return "no bytes are stored for it, only a fill value";
  return "";
}

TensorInfo make_info(const h5::DatasetInfo& dataset, std::string role, std::string layer) {
  TensorInfo tensor;
  tensor.path = dataset.path;
  tensor.role = std::move(role);
  tensor.layer = std::move(layer);
  tensor.format = dataset.type.format;
  tensor.dtype = dataset.type.name;
  tensor.element_bytes = dataset.type.bytes;
  tensor.plain = dataset.type.plain;
  tensor.shape = dataset.shape;
  tensor.storage = storage_name(dataset);
  tensor.stored_bytes = dataset.stored_bytes;
  tensor.offset = dataset.offset;
  tensor.refusal = refusal_of(tensor, dataset);
  if (!tensor.format && tensor.role != "checksum" && dataset.problem.empty()) {
    tensor.refused_by_type = tensor.refusal.empty() && tensor.plain;
    tensor.refusal = "its type (" + tensor.dtype + ") is not a number format that bitrift alters";
  }
  return tensor;
}

/// Two datasets over the same bytes: a change of one would silently change the other.
void refuse_shared_bytes(std::vector<TensorInfo>& tensors) {
  std::vector<TensorInfo*> placed;
  for (TensorInfo& tensor : tensors) {
    if (tensor.offset && tensor.stored_bytes > 0) placed.push_back(&tensor);
  }
  std::sort(placed.begin(), placed.end(),
            [](const auto* a, const auto* b) { return *a->offset < *b->offset; });
  TensorInfo* furthest = nullptr;  // of all before, the one that ends last
  for (TensorInfo* tensor : placed) {
    const auto end = [](const TensorInfo* t) { return *t->offset + t->stored_bytes; };
    if (furthest != nullptr && *tensor->offset < end(furthest)) {
      for (auto [one, other] : {std::pair{tensor, furthest}, std::pair{furthest, tensor}}) {
        if (one->refusal.empty() || one->refused_by_type)
          one->refusal = "it shares stored bytes with " + other->path;
        one->refused_by_type = false;
      }
    }
    if (furthest == nullptr || end(tensor) > end(furthest)) furthest = tensor;
  }
}

void to_little_endian(const TensorInfo& tensor, std::uint8_t* data, std::size_t bytes) {
  if (!tensor.format || tensor.format->order == ByteOrder::little) return;
  const std::size_t width = tensor.format->bytes;
  for (std::size_t at = 0; at + width <= bytes; at += width) std::reverse(data + at, data + at + width);
}

}  // namespace

std::uint64_t TensorInfo::elements() const noexcept { return h5::element_count(shape); }

struct Reader::State {
  explicit State(std::filesystem::path file_path)
      : path(std::move(file_path)), file(path), fd(open_file(path, O_RDONLY)), attributes(file.attributes()) {
    datasets = file.datasets();
    std::vector<Dataset> names;
    for (const auto& dataset : datasets) names.push_back({dataset.path, dataset.shape});
    outline = outline_of(names, [this](const std::string& group, const std::string& attribute) {
      return file.texts(group, attribute);
    });
    for (std::size_t i = 0; i < datasets.size(); ++i) {
      tensors.push_back(make_info(datasets[i], outline.roles[i], outline.layers[i]));
    }
    refuse_shared_bytes(tensors);
  }

  std::filesystem::path path;
  h5::File file;
  FileDescriptor fd;
  std::map<std::string, std::string> attributes;
  std::vector<h5::DatasetInfo> datasets;  // same order as tensors
  std::vector<TensorInfo> tensors;
  Outline outline;
  std::once_flag layers_once;
  LayerList layers;
  std::once_flag checksums_once;
  std::map<std::string, StoredChecksum, std::less<>> checksums;
};

Reader::Reader(std::filesystem::path path) : state_(std::make_unique<State>(std::move(path))) {}
Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;

const std::filesystem::path& Reader::path() const noexcept { return state_->path; }
const std::vector<TensorInfo>& Reader::tensors() const noexcept { return state_->tensors; }
const std::string& Reader::layout() const noexcept { return state_->outline.layout; }
const LayerList& Reader::layers() const {
  std::call_once(state_->layers_once, [this] { state_->layers = LayerList(state_->outline); });
  return state_->layers;
}
const std::map<std::string, std::string>& Reader::attributes() const noexcept { return state_->attributes; }

const TensorInfo* Reader::find(std::string_view path) const noexcept {
  const auto& all = state_->tensors;
  const auto at =
      std::lower_bound(all.begin(), all.end(), path,
                       [](const TensorInfo& tensor, std::string_view name) { return tensor.path < name; });
  return at != all.end() && at->path == path ? &*at : nullptr;
}

void Reader::read(const TensorInfo& tensor, void* out, std::size_t bytes) const {
  const TensorInfo* const known = find(tensor.path);
  const std::string where = state_->path.string() + ": " + tensor.path;
  if (known == nullptr) fail(ErrorCode::internal, "{}: is no tensor of this file", where);
  const auto& dataset = state_->datasets[static_cast<std::size_t>(known - state_->tensors.data())];
  if (!dataset.problem.empty()) fail(ErrorCode::bad_file, "{}: {}", where, dataset.problem);
  if (!known->plain) fail(ErrorCode::unsupported, "{}: type {} cannot be read as bytes", where, known->dtype);
  if (known->elements() * known->element_bytes != bytes) {
    fail(ErrorCode::internal, "{}: asked for {} bytes of {} x {}", where, bytes, known->elements(),
         known->element_bytes);
  }
  if (known->offset) {
    read_at(state_->fd, out, bytes, *known->offset, state_->path);
  } else {
    state_->file.read(dataset, out, bytes);
  }
  to_little_endian(*known, static_cast<std::uint8_t*>(out), bytes);
}

void Reader::read_elements(const TensorInfo& tensor, std::uint64_t first, std::uint64_t count,
                           void* out) const {
  const TensorInfo* const known = find(tensor.path);
  if (known == nullptr || !known->offset || first > known->elements() || count > known->elements() - first) {
    fail(ErrorCode::internal, "{}: {}: elements {} + {} are not there to be read", state_->path.string(),
         tensor.path, first, count);
  }
  const std::size_t bytes = count * known->element_bytes;
  read_at(state_->fd, out, bytes, *known->offset + first * known->element_bytes, state_->path);
  to_little_endian(*known, static_cast<std::uint8_t*>(out), bytes);
}

void Reader::read_from_copy(const std::filesystem::path& copy, const TensorInfo& tensor, void* out,
                            std::size_t bytes) const {
  const TensorInfo* const known = find(tensor.path);
  if (known == nullptr || !known->offset || bytes != known->elements() * known->element_bytes) {
    fail(ErrorCode::internal, "{}: {}: {} bytes are not there to be read", state_->path.string(), tensor.path,
         bytes);
  }
  read_at(open_file(copy, O_RDONLY), out, bytes, *known->offset, copy);
  to_little_endian(*known, static_cast<std::uint8_t*>(out), bytes);
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
    if (names == nullptr || sums == nullptr || names->dtype != "string" || !names->offset || !sums->offset ||
        sums->format != expected || names->elements() != sums->elements()) {
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
      state_->checksums[name] = {value, *sums->offset + i * 4};
    }
  });
  const auto at = state_->checksums.find(path);
  if (at == state_->checksums.end()) return std::nullopt;
  return at->second;
}

}  // namespace bitrift::ckpt
