#include "ckpt/dialect/keras_v3.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "ckpt/dialect/keras_optimizer.h"

namespace bitrift::ckpt {
namespace {

/// "layers/dense_1/vars/0": the group of a layer's variables is called `vars`, and they have numbers.
bool is_numbered_variable(std::string_view path) {
  return is_number(leaf_of(path)) && leaf_of(parent_of(path)) == "vars";
}

/// The variables of one group, by number, from 0 on without a gap.
std::vector<const Dataset*> variables_of(const Catalog& catalog, const std::string& group) {
  std::vector<const Dataset*> all;
  while (const Dataset* const next = catalog.find(group + '/' + std::to_string(all.size())))
    all.push_back(next);
  return all;
}

enum class Kind { unknown, kernel, separable, cell, batch_norm, norm, statistics, single, seed };

/// A layer's kind by its class. Keras uses the name of the class in snake case as the name of a group in a
/// list of layers, and of a layer without a name.
Kind kind_of(std::string_view name) {
  const std::string whole = lower(name);
  const std::string_view stem = without_number(whole);
  static const std::map<std::string_view, Kind> kinds = {{"batch_normalization", Kind::batch_norm},
                                                         {"layer_normalization", Kind::norm},
                                                         {"group_normalization", Kind::norm},
                                                         {"rms_normalization", Kind::norm},
                                                         {"normalization", Kind::statistics},
                                                         {"embedding", Kind::single},
                                                         {"p_re_lu", Kind::single},
                                                         {"seed_generator", Kind::seed},
                                                         {"cell", Kind::cell}};
  const auto at = kinds.find(stem);
  if (at != kinds.end()) return at->second;
  if (stem.ends_with("_cell")) return Kind::cell;
  // "conv2d" ends in a letter, "conv2d_1" and "conv2d_transpose_1" in a number.
  const auto names = [&](std::string_view part) { return stem.find(part) != std::string_view::npos; };
  if (names("separable_conv")) return Kind::separable;
  return names("conv1d") || names("conv2d") || names("conv3d") || stem.ends_with("dense") ? Kind::kernel
                                                                                          : Kind::unknown;
}

/// The group of a layer in a list, "layers/dense_1", has the name of its class. Elsewhere a group has the
/// name of an attribute, which may be any, and a layer may have any name too: where the two contradict each
/// other, neither counts.
Kind kind_of_layer(std::string_view owner, const std::string& name) {
  const Kind by_group = kind_of(leaf_of(owner)), by_name = kind_of(name);
  if (by_group == Kind::unknown) return by_name;
  const bool listed = leaf_of(parent_of(owner)) == "layers";
  return listed || by_name == Kind::unknown || by_name == by_group ? by_group : Kind::unknown;
}

/// The variables of one layer, in the order of their creation: trained ones first.
class LayerVariables {
 public:
  explicit LayerVariables(const std::vector<const Dataset*>& all) : all_(all), count_(all.size()) {}

  [[nodiscard]] std::string_view role(Kind kind, std::size_t number) const {
    switch (kind) {
      case Kind::kernel:
        return role_beside_kernel(number);
      case Kind::separable:  // two kernels
        if (is_integer(0) || count_ < 2 || count_ > 3 || rank(1) != rank(0)) return unknown_role;
        return number < 2 ? "weight" : "bias";
      case Kind::cell:  // kernel, recurrent kernel, bias
        if (count_ > 3 || rank(0) < 2) return unknown_role;
        return number < 2 ? "weight" : "bias";
      case Kind::batch_norm:
        return role_in_batch_norm(number);
      case Kind::norm:
        return count_ <= 2 ? "norm" : unknown_role;
      case Kind::statistics:
        return "running_stat";
      case Kind::single:  // quantized ones have scales after them
        return number == 0 && (count_ == 1 || is_integer(0)) ? "weight" : unknown_role;
      case Kind::seed:
        return "rng";
      case Kind::unknown:
        break;
    }
    // A class or attribute of the user's own: a matrix, and a vector as long as its last dimension.
    const bool pair = count_ == 2 && rank(0) >= 2 && rank(1) == 1 &&
                      all_[0]->shape.back() == all_[1]->shape.front() && !is_integer(0) && !is_integer(1);
    if (!pair) return unknown_role;
    return number == 0 ? "weight" : "bias";
  }

 private:
  [[nodiscard]] std::size_t rank(std::size_t number) const { return all_[number]->shape.size(); }
  [[nodiscard]] bool is_integer(std::size_t number) const {
    const std::string& dtype = all_[number]->dtype;
    return dtype.starts_with("int") || dtype.starts_with("uint");
  }

  /// A kernel and a bias, either of which may be missing; in quantized layers numbers for scaling follow
  /// (Dense.variable_serialization_spec): for int8 a scale, for int4 also zeros (integers) and indexes, for
  /// float8 three pairs of a scale and a history.
  [[nodiscard]] std::string_view role_beside_kernel(std::size_t number) const {
    if (rank(0) < 2) return unknown_role;
    bool bias = false, known = true;
    if (is_integer(0)) {
      bias = (count_ == 3 && !is_integer(2)) || (count_ == 5 && is_integer(3));
      known = bias || count_ == 2 || (count_ == 4 && is_integer(2));
    } else if (count_ == 7 || count_ == 8) {
      bias = count_ == 8;
      for (std::size_t i = count_ - 6; i < count_; ++i) known = known && rank(i) == (count_ - i) % 2;
    } else {
      bias = count_ == 2;
      known = count_ <= 2 && (!bias || !is_integer(1));
    }
    if (!known) return unknown_role;
    if (number == 0) return "weight";
    return bias && number == 1 ? "bias" : unknown_role;
  }

  /// Gamma and beta if they exist, then two statistics, or five if `renorm` is on.
  [[nodiscard]] std::string_view role_in_batch_norm(std::size_t number) const {
    if (count_ < 2 || count_ > 7) return unknown_role;
    const bool vectors = std::all_of(all_.begin(), all_.end(), [&](const Dataset* one) {
      return one->shape.size() == 1 && one->shape == all_[0]->shape;
    });
    if (!vectors) return unknown_role;
    return number + (count_ > 4 ? 5 : 2) >= count_ ? "running_stat" : "norm";
  }

  const std::vector<const Dataset*>& all_;
  std::size_t count_;
};

std::string_view without_prefix(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) ? path.substr(prefix.size()) : path;
}

bool is_of_optimizer(std::string_view owner) {
  return owner == "optimizer" || owner.starts_with("optimizer/");
}
bool is_of_layer(std::string_view owner) {
  return !owner.empty() && !is_of_optimizer(owner) && owner.find("metrics") == std::string_view::npos;
}

class Finder {
 public:
  Finder(const Catalog& catalog, const GroupTexts& texts) : catalog_(catalog), texts_(texts) {
    for (const Dataset& dataset : catalog.datasets()) {
      if (!is_numbered_variable(dataset.path)) continue;
      const std::string_view owner = parent_of(parent_of(dataset.path));
      if (owner.empty() || is_of_layer(owner)) ++model_[dataset.shape];
    }
  }

  /// Places of the variables of one group, by number.
  [[nodiscard]] std::vector<Place> places(const std::string& group) const {
    const std::string_view owner = parent_of(group);
    const auto all = variables_of(catalog_, group);
    std::vector<Place> places(all.size());
    if (is_of_optimizer(owner)) {
      std::vector<Shape> shapes;
      shapes.reserve(all.size());
      for (const Dataset* const one : all) shapes.push_back(one->shape);
      const std::string name = name_of_owner(group);
      // The second optimizer of a process has the name "adam_1".
      const auto roles = keras_optimizer_roles(without_number(name), shapes, model_);
      for (std::size_t i = 0; i < all.size(); ++i) places[i].role = roles[i];
    } else if (is_of_layer(owner)) {
      const Kind kind = kind_of_layer(owner, name_of_owner(group));
      const std::string_view layer =
          without_prefix(without_prefix(owner, "_layer_checkpoint_dependencies/"), "layers/");
      for (std::size_t i = 0; i < all.size(); ++i) {
        places[i].role = LayerVariables(all).role(kind, i);
        if (kind != Kind::seed) places[i].layer = layer;
      }
    }
    return places;
  }

 private:
  [[nodiscard]] std::string name_of_owner(const std::string& group) const {
    const std::vector<std::string> given = texts_(group, "name");
    return given.empty() ? std::string() : lower(given.front());
  }

  const Catalog& catalog_;
  const GroupTexts& texts_;
  ShapeCounts model_;
};

}  // namespace

bool is_keras_v3(const Catalog& catalog) {
  return std::any_of(catalog.datasets().begin(), catalog.datasets().end(),
                     [](const Dataset& dataset) { return is_numbered_variable(dataset.path); });
}

std::vector<Place> keras_v3_places(const Catalog& catalog, const GroupTexts& texts) {
  const Finder finder(catalog, texts);
  std::vector<Place> places;
  std::map<std::string, std::vector<Place>, std::less<>> groups;
  for (const Dataset& dataset : catalog.datasets()) {
    places.emplace_back();
    if (!is_numbered_variable(dataset.path)) continue;
    const std::string group(parent_of(dataset.path));
    const auto [at, added] = groups.try_emplace(group);
    if (added) at->second = finder.places(group);
    // After a gap in the numbers, or with a leading zero, it is not one of them.
    const std::string name(leaf_of(dataset.path));
    const std::size_t number = std::stoull(name.substr(0, 9));
    if (number < at->second.size() && std::to_string(number) == name) places.back() = at->second[number];
  }
  return places;
}

}  // namespace bitrift::ckpt
