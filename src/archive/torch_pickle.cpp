#include "archive/torch_pickle.h"

#include <algorithm>
#include <array>

#include "archive/bounded_file.h"
#include "archive/pickle.h"
#include "core/error.h"

namespace bitrift::archive {
namespace {

constexpr unsigned deepest_value = 64;
constexpr std::size_t most_visits = std::size_t{8} << 20U;
constexpr std::size_t most_torch_tensors = 500'000;
constexpr std::size_t most_torch_dimensions = 64;
constexpr std::size_t most_path = 4096;
constexpr std::size_t most_path_bytes = std::size_t{64} << 20U;  // of all tensors

constexpr std::string_view ordered_dict = "collections.OrderedDict";
constexpr std::array<std::string_view, 2> parameters = {"torch._utils._rebuild_parameter",
                                                        "torch._utils._rebuild_parameter_with_state"};
constexpr std::array<std::string_view, 3> tensors = {
    "torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3"};
/// What may stand beside tensors, and holds none.
constexpr std::array<std::string_view, 9> bystanders = {"torch.Size",
                                                        "torch.device",
                                                        "torch.serialization._get_layout",
                                                        "torch.storage.TypedStorage",
                                                        "_codecs.encode",
                                                        "builtins.set",
                                                        "__builtin__.set",
                                                        "builtins.bytearray",
                                                        "__builtin__.bytearray"};

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// "torch.FloatStorage", "torch.storage.UntypedStorage", "torch.float8_e5m2".
std::optional<ElementType> type_of_global(std::string_view name) {
  for (const std::string_view module : {"torch.storage.", "torch.cuda.", "torch."}) {
    if (name.starts_with(module)) return torch_type(name.substr(module.size()));
  }
  return std::nullopt;
}

class TensorFinder {
 public:
  TensorFinder(const Pickle& pickle, const std::string& where) : pickle_(pickle), where_(where) {}

  TorchContents find() {
    for (const PickleValue& value : pickle_.values()) {
      if (value.kind == PickleKind::global) check_global(value.text);
    }
    visit(pickle_.root(), "", 0);
    return {std::move(found_), texts()};
  }

 private:
  [[noreturn]] void damaged(const std::string& path, const std::string& what) const {
    fail(ErrorCode::bad_file, "{}: tensor {}: {}", where_, printable(path), what);
  }

  void check_global(std::string_view name) const {
    if (name == ordered_dict || is_among(parameters, name) || is_among(tensors, name)) return;
    if (is_among(bystanders, name) || type_of_global(name)) return;
    fail(
        ErrorCode::unsupported,
        "{}: the pickle needs the Python object {}, which bitrift neither knows nor calls; save a state_dict "
        "of plain tensors",
        where_, printable(name));
  }

  [[nodiscard]] std::map<std::string, std::string> texts() const {
    const PickleValue& root = pickle_[pickle_.root()];
    const bool dict =
        root.kind == PickleKind::dict || (root.kind == PickleKind::object && callable(root) == ordered_dict);
    std::map<std::string, std::string> texts;
    for (std::size_t i = 0; dict && i + 1 < root.items.size(); i += 2) {
      const PickleValue& key = pickle_[root.items[i]];
      const PickleValue& value = pickle_[root.items[i + 1]];
      if (key.kind == PickleKind::text && value.kind == PickleKind::text)
        texts.insert_or_assign(std::string(key.text), std::string(value.text));
    }
    return texts;
  }

  [[nodiscard]] std::string_view callable(const PickleValue& object) const {
    const PickleValue& name = pickle_[object.callable];
    return name.kind == PickleKind::global ? name.text : std::string_view();
  }

  static std::string joined(const std::string& path, std::string_view key) {
    if (path.empty()) return std::string(key);
    return path + '/' + std::string(key);
  }

  [[nodiscard]] std::string key_of(PickleId id) const {
    const PickleValue& key = pickle_[id];
    switch (key.kind) {
      case PickleKind::text:
        return std::string(key.text);
      case PickleKind::integer:
        return std::to_string(key.integer);
      case PickleKind::truth:
        return key.integer != 0 ? "True" : "False";
      case PickleKind::none:
        return "None";
      default:
        return "?";
    }
  }

  void visit(PickleId id, const std::string& path, unsigned depth) {
    if (depth > deepest_value)
      damaged(path, fmt::format("values are nested more than {} deep", deepest_value));
    if (++visits_ > most_visits || path.size() > most_path)
      damaged(path, "the pickle repeats its values too often");
    const PickleValue& value = pickle_[id];
    switch (value.kind) {
      case PickleKind::list:
      case PickleKind::tuple:
        for (std::size_t i = 0; i < value.items.size(); ++i) {
          visit(value.items[i], joined(path, std::to_string(i)), depth + 1);
        }
        return;
      case PickleKind::dict:
        return visit_pairs(value.items, path, depth);
      case PickleKind::object:
        return visit_object(value, path, depth);
      default:
        return;
    }
  }

  void visit_pairs(const std::vector<PickleId>& items, const std::string& path, unsigned depth) {
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const PickleKind kind = pickle_[items[i + 1]].kind;
      const bool holds = kind == PickleKind::list || kind == PickleKind::tuple || kind == PickleKind::dict ||
                         kind == PickleKind::object;
      if (holds) visit(items[i + 1], joined(path, key_of(items[i])), depth + 1);
    }
  }

  void visit_object(const PickleValue& object, const std::string& path, unsigned depth) {
    const std::string_view name = callable(object);
    const PickleValue& arguments = pickle_[object.arguments];
    if (name.empty() || arguments.kind != PickleKind::tuple) {
      fail(ErrorCode::unsupported, "{}: the pickle makes something at {} that is no call of a known object",
           where_, printable(path));
    }
    if (name == ordered_dict) {
      for (const PickleId list : arguments.items) visit_list_of_pairs(list, path, depth);
      return visit_pairs(object.items, path, depth);
    }
    if (is_among(parameters, name)) {
      if (arguments.items.empty()) damaged(path, "it has no values");
      return visit(arguments.items[0], path, depth + 1);
    }
    if (is_among(tensors, name)) add_tensor(name, arguments.items, path);
  }

  void visit_list_of_pairs(PickleId id, const std::string& path, unsigned depth) {
    const PickleValue& list = pickle_[id];
    if (list.kind == PickleKind::dict) return visit_pairs(list.items, path, depth);
    for (const PickleId pair : list.items) {
      if (pickle_[pair].items.size() == 2) visit_pairs(pickle_[pair].items, path, depth);
    }
  }

  [[nodiscard]] std::uint64_t size_at(PickleId id, const std::string& path, const char* what) const {
    const PickleValue& value = pickle_[id];
    if (value.kind != PickleKind::integer || value.integer < 0)
      damaged(path, fmt::format("its {} is no size", what));
    return static_cast<std::uint64_t>(value.integer);
  }

  [[nodiscard]] std::vector<std::uint64_t> sizes_at(PickleId id, const std::string& path,
                                                    const char* what) const {
    const PickleValue* value = &pickle_[id];
    if (value->kind == PickleKind::object && callable(*value) == "torch.Size" &&
        pickle_[value->arguments].items.size() == 1) {
      value = &pickle_[pickle_[value->arguments].items[0]];
    }
    const bool list = value->kind == PickleKind::tuple || value->kind == PickleKind::list;
    if (!list || value->items.size() > most_torch_dimensions)
      damaged(path, fmt::format("its {} is no list of sizes", what));
    std::vector<std::uint64_t> sizes;
    for (const PickleId item : value->items) sizes.push_back(size_at(item, path, what));
    return sizes;
  }

  [[nodiscard]] ElementType type_at(PickleId id, const std::string& path) const {
    const PickleValue& value = pickle_[id];
    const auto type = value.kind == PickleKind::global ? type_of_global(value.text) : std::nullopt;
    if (!type) damaged(path, "its type is none of PyTorch's");
    return *type;
  }

  /// ('storage', class, key, location, elements)
  void read_storage(PickleId id, const std::string& path, TorchTensor& tensor) const {
    const PickleValue& storage = pickle_[id];
    if (storage.kind != PickleKind::persistent) damaged(path, "it has no storage");
    const PickleValue& said = pickle_[storage.arguments];
    if (said.kind != PickleKind::tuple || said.items.size() < 5 ||
        pickle_[said.items[2]].kind != PickleKind::text) {
      damaged(path, "its storage is not described as torch.save does");
    }
    tensor.type = type_at(said.items[1], path);
    tensor.storage = pickle_[said.items[2]].text;
    if (__builtin_mul_overflow(size_at(said.items[4], path, "storage"), tensor.type.bytes,
                               &tensor.storage_bytes)) {
      damaged(path, "its storage is too large");
    }
  }

  /// (storage, offset, size, stride, requires_grad, hooks), and in version 3 the type behind them.
  void add_tensor(std::string_view name, const std::vector<PickleId>& arguments, const std::string& path) {
    const bool typed = name.ends_with("_v3");
    if (arguments.size() < (typed ? 7U : 4U)) damaged(path, "arguments are missing");
    if (found_.size() == most_torch_tensors) {
      fail(ErrorCode::unsupported, "{}: has more than {} tensors", where_, most_torch_tensors);
    }
    // What lies in several containers counts for each; a sound pickle has a dozen values for every tensor.
    path_bytes_ += path.size();
    if (found_.size() > 1024 + pickle_.values().size() || path_bytes_ > most_path_bytes) {
      damaged(path, "the pickle repeats its values too often");
    }
    TorchTensor tensor;
    tensor.path = path.empty() ? "tensor" : path;
    read_storage(arguments[0], tensor.path, tensor);
    if (typed) tensor.type = type_at(arguments[6], tensor.path);
    tensor.shape = sizes_at(arguments[2], tensor.path, "shape");
    tensor.strides = sizes_at(arguments[3], tensor.path, "stride");
    if (tensor.shape.size() != tensor.strides.size()) damaged(tensor.path, "shape and strides do not fit");
    bool fits = !__builtin_mul_overflow(size_at(arguments[1], tensor.path, "offset"), tensor.type.bytes,
                                        &tensor.first);
    bool empty = false;
    std::uint64_t last = tensor.first;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      std::uint64_t way = 0;
      fits = fits && !__builtin_mul_overflow(tensor.strides[i], tensor.type.bytes, &tensor.strides[i]);
      empty = empty || tensor.shape[i] == 0;
      if (tensor.shape[i] == 0) continue;
      fits = fits && !__builtin_mul_overflow(tensor.strides[i], tensor.shape[i] - 1, &way) &&
             !__builtin_add_overflow(last, way, &last);
    }
    fits = fits && !__builtin_add_overflow(last, tensor.type.bytes, &tensor.end);
    if (empty) {
      tensor.end = tensor.first = 0;
    } else if (!fits || tensor.end > tensor.storage_bytes) {
      damaged(tensor.path, fmt::format("it lies outside of its storage of {} bytes", tensor.storage_bytes));
    }
    found_.push_back(std::move(tensor));
  }

  const Pickle& pickle_;
  const std::string& where_;
  std::vector<TorchTensor> found_;
  std::size_t visits_ = 0;
  std::size_t path_bytes_ = 0;
};

}  // namespace

TorchContents contents_of_pickle(std::span<const std::uint8_t> pickle, const std::string& where) {
  return TensorFinder(Pickle(pickle, where), where).find();
}

}  // namespace bitrift::archive
