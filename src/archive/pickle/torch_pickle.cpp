#include "archive/pickle/torch_pickle.h"

#include <algorithm>
#include <array>

#include "archive/bounded_file.h"
#include "archive/pickle/pickle.h"
#include "core/error.h"

namespace bitrift::archive {
namespace {

constexpr unsigned deepest_value = 512;
constexpr std::size_t most_visits = std::size_t{8} << 20U;
constexpr std::size_t most_torch_tensors = 500'000;
constexpr std::size_t most_torch_dimensions = 64;
constexpr std::size_t most_path = 4096;
constexpr std::size_t most_path_bytes = std::size_t{64} << 20U;  // of all tensors

constexpr std::string_view ordered_dict = "collections.OrderedDict";
/// Their first argument is the tensor.
constexpr std::array<std::string_view, 3> parameters = {
    "torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state",
    "torch._utils._rebuild_device_tensor_from_cpu_tensor"};
constexpr std::array<std::string_view, 3> tensors = {
    "torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3"};
/// A tensor or parameter with attributes of its own: (function, class, arguments of the function,
/// attributes).
constexpr std::string_view with_attributes = "torch._tensor._rebuild_from_type_v2";
/// Where a pickled module keeps the contents of its state_dict.
constexpr std::array<std::string_view, 3> parts_of_modules = {"_parameters", "_buffers", "_modules"};
/// Where a recurrent module lists its parameters again.
constexpr std::string_view listed_again = "_flat_weights";
constexpr std::size_t most_listed_again = 4096;  // names and parameters

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

  [[nodiscard]] std::map<std::string, TorchStorage> storages() const {
    std::map<std::string, TorchStorage> found;
    for (PickleId id = 0; id < pickle_.values().size(); ++id) {
      if (!names_storage(id)) continue;
      TorchTensor one;
      read_storage(id, "of a storage", one);
      const TorchStorage storage{one.storage_bytes, one.type.bytes};
      const auto [at, added] = found.try_emplace(one.storage, storage);
      if (!added && (at->second.bytes != storage.bytes || at->second.element_bytes != storage.element_bytes))
        fail(ErrorCode::bad_file, "{}: describes the storage {} twice", where_, printable(one.storage));
    }
    return found;
  }

  TorchContents find() {
    visiting_.resize(pickle_.values().size());
    visit(pickle_.root(), "", 0);
    return {std::move(found_), texts()};
  }

 private:
  [[noreturn]] void damaged(const std::string& path, const std::string& what) const {
    fail(ErrorCode::bad_file, "{}: tensor {}: {}", where_, printable(path), what);
  }

  [[nodiscard]] std::map<std::string, std::string> texts() const {
    const PickleValue& root = pickle_[pickle_.root()];
    const bool dict =
        root.kind == PickleKind::dict || (root.kind == PickleKind::object && callable(root) == ordered_dict);
    std::map<std::string, std::string> texts;
    for (std::size_t i = 0; dict && i + 1 < root.items.size(); i += 2) {
      if (root.items[i] == element_key || root.items[i] == state_key) continue;
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

  [[nodiscard]] bool may_hold_tensors(PickleId id) const {
    const PickleKind kind = pickle_[id].kind;
    return kind == PickleKind::list || kind == PickleKind::tuple || kind == PickleKind::set ||
           kind == PickleKind::dict || kind == PickleKind::object;
  }

  void visit(PickleId id, const std::string& path, unsigned depth) {
    if (!may_hold_tensors(id) || visiting_[id]) return;  // a value that contains itself is named once
    if (depth > deepest_value) {
      fail(ErrorCode::unsupported, "{}: values at {} are nested more than {} deep", where_, printable(path),
           deepest_value);
    }
    if (++visits_ > most_visits || path.size() > most_path)
      damaged(path, "the pickle repeats its values too often");
    visiting_[id] = true;
    const PickleValue& value = pickle_[id];
    if (value.kind == PickleKind::dict) {
      visit_pairs(value.items, path, depth);
    } else if (value.kind == PickleKind::object) {
      visit_object(value, path, depth);
    } else {
      for (std::size_t i = 0; i < value.items.size(); ++i) visit_item(value.items[i], path, i, depth);
    }
    visiting_[id] = false;
  }

  void visit_item(PickleId id, const std::string& path, std::size_t number, unsigned depth) {
    if (may_hold_tensors(id)) visit(id, joined(path, std::to_string(number)), depth + 1);
  }

  /// Keys and values; for objects also elements and states.
  void visit_pairs(const std::vector<PickleId>& items, const std::string& path, unsigned depth) {
    std::size_t elements = 0;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const PickleId key = items[i], value = items[i + 1];
      if (key == element_key) {
        visit_item(value, path, elements++, depth);
      } else if (key == state_key) {
        visit_state(value, path, depth);
      } else if (may_hold_tensors(value)) {
        visit(value, joined(path, key_of(key)), depth + 1);
      }
    }
  }

  /// Whether each value of the list is a parameter of the module that has this state. The values count as
  /// visited, because a pickle may name the module again and again.
  [[nodiscard]] bool repeats_parameters(const PickleValue& list, const PickleValue& state) {
    visits_ += list.items.size();
    for (std::size_t i = 0; i + 1 < state.items.size(); i += 2) {
      if (key_of(state.items[i]) != parts_of_modules[0]) continue;
      const std::vector<PickleId>& own = pickle_[state.items[i + 1]].items;
      if (own.size() > most_listed_again) return false;
      return std::all_of(list.items.begin(), list.items.end(),
                         [&](PickleId item) { return std::find(own.begin(), own.end(), item) != own.end(); });
    }
    return false;
  }

  /// Attributes in a dict, or in a pair of dicts if some are slots. Modules have the names that their
  /// state_dict gives them.
  void visit_state(PickleId id, const std::string& path, unsigned depth) {
    const PickleValue& state = pickle_[id];
    const auto is_dict = [&](std::size_t i) { return pickle_[state.items[i]].kind == PickleKind::dict; };
    if (state.kind == PickleKind::tuple && state.items.size() == 2 && is_dict(1) &&
        (is_dict(0) || pickle_[state.items[0]].kind == PickleKind::none)) {
      for (const PickleId part : state.items) visit_state(part, path, depth + 1);
      return;
    }
    if (state.kind != PickleKind::dict) return visit(id, path, depth + 1);
    for (std::size_t i = 0; i + 1 < state.items.size(); i += 2) {
      if (!may_hold_tensors(state.items[i + 1])) continue;
      const std::string key = key_of(state.items[i]);
      if (key == listed_again && repeats_parameters(pickle_[state.items[i + 1]], state)) continue;
      visit(state.items[i + 1], is_among(parts_of_modules, key) ? path : joined(path, key), depth + 1);
    }
  }

  void visit_object(const PickleValue& object, const std::string& path, unsigned depth) {
    const std::string_view name = callable(object);
    const PickleValue& arguments = pickle_[object.arguments];
    if (arguments.kind != PickleKind::tuple) {
      visit(object.arguments, path, depth + 1);
    } else if (name == ordered_dict) {
      for (const PickleId list : arguments.items) visit_list_of_pairs(list, path, depth);
    } else {
      visit_call(name, arguments.items, path, depth);
    }
    visit_pairs(object.items, path, depth);
  }

  /// What a call of `name` would create.
  void visit_call(std::string_view name, const std::vector<PickleId>& arguments, const std::string& path,
                  unsigned depth) {
    if (is_among(parameters, name)) {
      if (arguments.empty()) damaged(path, "it has no values");
      visit(arguments[0], path, depth + 1);
      if (name.ends_with("_with_state") && arguments.size() > 3) visit_state(arguments[3], path, depth);
      return;
    }
    if (is_among(tensors, name)) return add_tensor(name, arguments, path);
    if (name == with_attributes && arguments.size() >= 4) {
      const PickleValue& function = pickle_[arguments[0]];
      const PickleValue& inner = pickle_[arguments[2]];
      if (function.kind == PickleKind::global && inner.kind == PickleKind::tuple) {
        visit_call(function.text, inner.items, path, depth + 1);
        return visit_state(arguments[3], path, depth);
      }
    }
    // A single argument is the content of the object: deque([...]), or the object inside a wrapper.
    if (arguments.size() == 1) return visit(arguments[0], path, depth + 1);
    for (std::size_t i = 0; i < arguments.size(); ++i) visit_item(arguments[i], path, i, depth);
  }

  [[nodiscard]] bool is_sequence(PickleId id) const {
    return pickle_[id].kind == PickleKind::list || pickle_[id].kind == PickleKind::tuple;
  }

  /// The contents of an OrderedDict.
  void visit_list_of_pairs(PickleId id, const std::string& path, unsigned depth) {
    const PickleValue& list = pickle_[id];
    if (list.kind == PickleKind::dict) return visit_pairs(list.items, path, depth);
    if (!is_sequence(id)) return visit(id, path, depth + 1);
    for (const PickleId pair : list.items) {
      if (is_sequence(pair) && pickle_[pair].items.size() == 2) visit_pairs(pickle_[pair].items, path, depth);
    }
  }

  [[nodiscard]] std::uint64_t size_at(PickleId id, const std::string& path, const char* what) const {
    const PickleValue& value = pickle_[id];
    if (value.kind != PickleKind::integer || value.integer < 0)
      damaged(path, fmt::format("its {} is not a size", what));
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
      damaged(path, fmt::format("its {} is not a list of sizes", what));
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

  /// Not the class of a module, which files before PyTorch 1.6 keep with its source text.
  [[nodiscard]] bool names_storage(PickleId id) const {
    if (pickle_[id].kind != PickleKind::persistent) return false;
    const PickleValue& said = pickle_[pickle_[id].arguments];
    return said.kind == PickleKind::tuple && !said.items.empty() && pickle_[said.items[0]].text == "storage";
  }

  /// ('storage', class, key, location, elements); before PyTorch 1.6, a view of another storage may follow.
  void read_storage(PickleId id, const std::string& path, TorchTensor& tensor) const {
    const PickleValue& storage = pickle_[id];
    if (storage.kind != PickleKind::persistent) damaged(path, "it has no storage");
    const PickleValue& said = pickle_[storage.arguments];
    if (said.kind != PickleKind::tuple || said.items.size() < 5 ||
        pickle_[said.items[2]].kind != PickleKind::text) {
      damaged(path, "its storage is not described as torch.save does");
    }
    if (said.items.size() > 5 && pickle_[said.items[5]].kind != PickleKind::none)
      fail(ErrorCode::unsupported, "{}: tensor {}: its storage is a view of another one", where_,
           printable(path));
    tensor.type = type_at(said.items[1], path);
    tensor.storage = pickle_[said.items[2]].text;
    if (__builtin_mul_overflow(size_at(said.items[4], path, "storage"), tensor.type.bytes,
                               &tensor.storage_bytes)) {
      damaged(path, "its storage is too large");
    }
  }

  /// The lazy views of a tensor: {"neg": True, "conj": True}.
  [[nodiscard]] bool has_mark(PickleId id, std::string_view mark) const {
    const PickleValue& marks = pickle_[id];
    if (marks.kind != PickleKind::dict) return false;
    for (std::size_t i = 0; i + 1 < marks.items.size(); i += 2) {
      const PickleValue& value = pickle_[marks.items[i + 1]];
      if (pickle_[marks.items[i]].text == mark && value.kind == PickleKind::truth) return value.integer != 0;
    }
    return false;
  }

  /// (storage, offset, size, stride, requires_grad, hooks); in version 3 the type follows, and for lazy views
  /// their marks.
  void add_tensor(std::string_view name, const std::vector<PickleId>& arguments, const std::string& path) {
    const bool typed = name.ends_with("_v3");
    if (arguments.size() < (typed ? 7U : 4U)) damaged(path, "arguments are missing");
    if (found_.size() == most_torch_tensors) {
      fail(ErrorCode::unsupported, "{}: has more than {} tensors", where_, most_torch_tensors);
    }
    // A value in several containers counts once for each; a sound pickle has a dozen values for every tensor.
    path_bytes_ += path.size();
    if (found_.size() > 1024 + pickle_.values().size() || path_bytes_ > most_path_bytes) {
      damaged(path, "the pickle repeats its values too often");
    }
    TorchTensor tensor;
    tensor.path = path.empty() ? "tensor" : path;
    read_storage(arguments[0], tensor.path, tensor);
    if (typed) tensor.type = type_at(arguments[6], tensor.path);
    if (const std::size_t marks = typed ? 7 : 6; arguments.size() > marks) {
      tensor.negated = has_mark(arguments[marks], "neg");
      tensor.conjugated = has_mark(arguments[marks], "conj");
    }
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
  std::vector<bool> visiting_;  // of each value
  std::size_t visits_ = 0;
  std::size_t path_bytes_ = 0;
};

}  // namespace

TorchContents contents_of_pickle(const Pickle& pickle, const std::string& where) {
  return TensorFinder(pickle, where).find();
}

std::map<std::string, TorchStorage> storages_of_pickle(const Pickle& pickle, const std::string& where) {
  return TensorFinder(pickle, where).storages();
}

}  // namespace bitrift::archive
