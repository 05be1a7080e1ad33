#include "archive/pickle/distributed_metadata.h"

#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "archive/bounded_file.h"
#include "archive/pickle/pickle.h"
#include "core/error.h"
#include "core/file_run.h"

namespace bitrift::archive {
namespace {

constexpr std::string_view checkpoint_module = "torch.distributed.checkpoint.";
constexpr std::size_t most_piece_dimensions = 64;
constexpr std::size_t most_pieces = 1'000'000;

class MetadataReader {
 public:
  MetadataReader(const Pickle& pickle, const std::string& where) : pickle_(pickle), where_(where) {}

  DistributedContents read() {
    const PickleValue& root = pickle_[pickle_.root()];
    if (!is(root, "metadata.Metadata")) {
      fail(ErrorCode::unsupported, "{}: is not the metadata of a checkpoint of torch.distributed.checkpoint",
           where_);
    }
    read_paths(member(root, "planner_data"));
    read_places(need(root, "storage_data", PickleKind::dict));
    const PickleValue& tensors = need(root, "state_dict_metadata", PickleKind::dict);
    DistributedContents found;
    found.objects = std::move(objects_);
    for (std::size_t i = 0; i + 1 < tensors.items.size(); i += 2) {
      const PickleValue& entry = pickle_[tensors.items[i + 1]];
      if (!is(entry, "metadata.TensorStorageMetadata")) continue;  // an object of another kind
      found.tensors.push_back(tensor_of(text_of(tensors.items[i]), entry));
    }
    return found;
  }

 private:
  using Sizes = std::vector<std::uint64_t>;

  [[noreturn]] void damaged(const std::string& name, const char* what) const {
    fail(ErrorCode::bad_file, "{}: tensor {}: {}", where_, printable(name), what);
  }

  /// An object of this class of torch.distributed.checkpoint.
  [[nodiscard]] bool is(const PickleValue& value, std::string_view name) const {
    if (value.kind != PickleKind::object) return false;
    const PickleValue& callable = pickle_[value.callable];
    return callable.kind == PickleKind::global && callable.text.starts_with(checkpoint_module) &&
           callable.text.substr(checkpoint_module.size()) == name;
  }

  /// The value of a dict's text key, or of an object's attribute; nullptr if there is none.
  [[nodiscard]] const PickleValue* member(const PickleValue& value, std::string_view name) const {
    for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
      const PickleId key = value.items[i];
      if (key == element_key) continue;
      if (key == state_key) {
        const PickleValue& state = pickle_[value.items[i + 1]];
        if (state.kind != PickleKind::dict) continue;
        if (const PickleValue* const found = member(state, name)) return found;
      } else if (pickle_[key].kind == PickleKind::text && pickle_[key].text == name) {
        return &pickle_[value.items[i + 1]];
      }
    }
    return nullptr;
  }

  [[nodiscard]] const PickleValue& need(const PickleValue& value, std::string_view name) const {
    if (const PickleValue* const found = member(value, name)) return *found;
    fail(ErrorCode::bad_file, "{}: its attribute {} is missing", where_, name);
  }

  [[nodiscard]] const PickleValue& need(const PickleValue& value, std::string_view name,
                                        PickleKind kind) const {
    const PickleValue& found = need(value, name);
    if (found.kind != kind) fail(ErrorCode::bad_file, "{}: its attribute {} has another type", where_, name);
    return found;
  }

  [[nodiscard]] std::string text_of(PickleId id) const {
    if (pickle_[id].kind != PickleKind::text)
      fail(ErrorCode::bad_file, "{}: the name of a tensor is not text", where_);
    return std::string(pickle_[id].text);
  }

  [[nodiscard]] std::uint64_t size_of(const PickleValue& value, const std::string& name) const {
    if (value.kind != PickleKind::integer || value.integer < 0)
      damaged(name, "one of its sizes is not a size");
    return static_cast<std::uint64_t>(value.integer);
  }

  /// torch.Size((2, 3)).
  [[nodiscard]] Sizes sizes_of(const PickleValue& value, const std::string& name) const {
    const PickleValue* list = &value;
    if (list->kind == PickleKind::object && pickle_[list->callable].text == "torch.Size") {
      list = &pickle_[list->arguments];
      if (list->items.size() == 1) list = &pickle_[list->items[0]];
    }
    if ((list->kind != PickleKind::tuple && list->kind != PickleKind::list) ||
        list->items.size() > most_piece_dimensions)
      damaged(name, "one of its sizes is not a list of sizes");
    Sizes sizes;
    for (const PickleId item : list->items) sizes.push_back(size_of(pickle_[item], name));
    return sizes;
  }

  /// The keys that the planner has joined with dots: {"model.0.weight": ("model", "0.weight")}.
  void read_paths(const PickleValue* paths) {
    if (paths == nullptr || paths->kind != PickleKind::dict) return;
    for (std::size_t i = 0; i + 1 < paths->items.size(); i += 2) {
      const PickleValue& keys = pickle_[paths->items[i + 1]];
      if (pickle_[paths->items[i]].kind != PickleKind::text || keys.kind != PickleKind::tuple) continue;
      std::string path;
      for (const PickleId id : keys.items) {
        const PickleValue& key = pickle_[id];
        if (!path.empty()) path += '/';
        path += key.kind == PickleKind::integer ? std::to_string(key.integer) : std::string(key.text);
      }
      paths_.insert_or_assign(text_of(paths->items[i]), std::move(path));
    }
  }

  /// {MetadataIndex(fqn, offset, index): _StorageInfo(relative_path, offset, length, transform_descriptors)}.
  void read_places(const PickleValue& places) {
    for (std::size_t i = 0; i + 1 < places.items.size(); i += 2) {
      const PickleValue& index = pickle_[places.items[i]];
      const PickleValue& info = pickle_[places.items[i + 1]];
      const std::string name(need(index, "fqn").text);
      const PickleValue& file = need(info, "relative_path");
      if (file.kind != PickleKind::text || !stays_in_folder(std::string(file.text)))
        damaged(name, "the name of its file leads out of the folder");
      TensorPiece place;
      place.file = file.text;
      place.offset = size_of(need(info, "offset"), name);
      place.bytes = size_of(need(info, "length"), name);
      const PickleValue* const transforms = member(info, "transform_descriptors");
      place.transformed = transforms != nullptr && transforms->kind != PickleKind::none;
      const PickleValue* const first = member(index, "offset");
      if (first == nullptr || first->kind == PickleKind::none) {
        objects_.push_back(std::move(place));
      } else {
        place.first = sizes_of(*first, name);
        places_.insert_or_assign({name, place.first}, std::move(place));
      }
    }
  }

  [[nodiscard]] DistributedTensor tensor_of(const std::string& name, const PickleValue& entry) {
    const auto path = paths_.find(name);
    DistributedTensor tensor{
        path == paths_.end() ? name : path->second, sizes_of(need(entry, "size"), name), {}};
    const PickleValue& chunks = need(entry, "chunks", PickleKind::list);
    std::uint64_t elements = 0;
    for (const PickleId id : chunks.items) {
      if (++pieces_ > most_pieces)
        fail(ErrorCode::unsupported, "{}: has more than {} pieces", where_, most_pieces);
      const PickleValue& chunk = pickle_[id];
      const auto place = places_.find({name, sizes_of(need(chunk, "offsets"), name)});
      if (place == places_.end()) damaged(name, "the metadata does not say where one of its pieces is");
      TensorPiece piece = place->second;
      piece.shape = sizes_of(need(chunk, "sizes"), name);
      elements += elements_of(piece, tensor.shape, name);
      tensor.pieces.push_back(std::move(piece));
    }
    std::uint64_t wanted = 1;
    for (const std::uint64_t size : tensor.shape) {
      if (__builtin_mul_overflow(wanted, size, &wanted)) damaged(name, "it has too many elements");
    }
    if (elements != wanted) damaged(name, "its pieces do not fill it");
    return tensor;
  }

  /// The elements of a piece, which must lie inside of its tensor.
  [[nodiscard]] std::uint64_t elements_of(const TensorPiece& piece, const Sizes& shape,
                                          const std::string& name) const {
    bool fits = piece.first.size() == shape.size() && piece.shape.size() == shape.size();
    std::uint64_t elements = 1;
    for (std::size_t i = 0; fits && i < shape.size(); ++i) {
      fits = piece.first[i] <= shape[i] && piece.shape[i] <= shape[i] - piece.first[i] &&
             !__builtin_mul_overflow(elements, piece.shape[i], &elements);
    }
    if (!fits) damaged(name, "one of its pieces lies outside of it");
    return elements;
  }

  const Pickle& pickle_;
  const std::string& where_;
  std::map<std::string, std::string> paths_;
  std::map<std::pair<std::string, Sizes>, TensorPiece> places_;
  std::vector<TensorPiece> objects_;
  std::size_t pieces_ = 0;
};

}  // namespace

DistributedContents distributed_contents(std::span<const std::uint8_t> pickle, const std::string& where) {
  return MetadataReader(Pickle(pickle, where), where).read();
}

}  // namespace bitrift::archive
