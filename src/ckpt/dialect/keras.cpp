#include "ckpt/dialect/keras.h"

#include <array>
#include <map>
#include <set>

// Keras: whole models and weights in its HDF5 format (1.0 on), and the .weights.h5 of its third version.

namespace bitrift::ckpt {
namespace {

using Roles = std::map<std::string_view, std::string_view>;

/// An attribute that was too long for one object header is stored in parts: NAME0, NAME1, ...
std::vector<std::string> long_texts(const GroupTexts& texts, const std::string& group,
                                    const std::string& name) {
  std::vector<std::string> all = texts(group, name);
  for (std::size_t part = 0; all.empty() || part > 0; ++part) {
    const std::vector<std::string> more = texts(group, name + std::to_string(part));
    if (more.empty()) break;
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return result;
}

/// "kernel:0" -> "kernel", as TensorFlow numbers the outputs of an operation.
std::string_view without_output(std::string_view name) {
  const std::size_t colon = name.rfind(':');
  return colon != std::string_view::npos && is_number(name.substr(colon + 1)) ? name.substr(0, colon) : name;
}

/// A variable by its name, "kernel", or as Keras 1 named it, "conv1_W".
std::string_view role_of_variable(std::string_view name, std::string_view layer) {
  static const Roles roles = {{"kernel", "weight"},
                              {"depthwise_kernel", "weight"},
                              {"pointwise_kernel", "weight"},
                              {"recurrent_kernel", "weight"},
                              {"embeddings", "weight"},
                              {"alpha", "weight"},
                              {"W", "weight"},
                              {"U", "weight"},
                              {"bias", "bias"},
                              {"recurrent_bias", "bias"},
                              {"b", "bias"},
                              {"gamma", "norm"},
                              {"beta", "norm"},
                              {"scale", "norm"},
                              {"moving_mean", "running_stat"},
                              {"moving_variance", "running_stat"},
                              {"running_mean", "running_stat"},
                              {"running_std", "running_stat"},
                              {"seed_generator_state", "rng"}};
  name = without_output(name);
  if (name.size() > layer.size() + 1 && name.starts_with(layer) && name[layer.size()] == '_')
    name.remove_prefix(layer.size() + 1);
  const auto at = roles.find(without_number(name));
  return at == roles.end() ? std::string_view("unknown") : at->second;
}

/// First and second moments under Adam's names, "m" and "v"; what other optimizers call so is something else.
std::string_view role_of_moment(std::string_view name, const std::string& optimizer) {
  const bool adam = optimizer.starts_with("adam") || optimizer.starts_with("nadam") || optimizer == "lamb";
  const bool sgd = optimizer.starts_with("sgd");
  const bool rmsprop = optimizer.starts_with("rmsprop");
  if (name == "m" || name == "momentum") {
    if (adam) return "exp_avg";
    return sgd || rmsprop ? "momentum" : "unknown";
  }
  if (name == "v" || name == "velocity")
    return (adam && optimizer != "adamax") || rmsprop ? "exp_avg_sq" : "unknown";
  return name == "rms" && rmsprop ? "exp_avg_sq" : "unknown";
}

/// Under optimizer_weights: "Adam/conv1/kernel/m:0" (2.0 to 2.10), "Adam/m/conv1/kernel:0" (2.11 on) or
/// "adam/conv1_kernel_momentum" (3).
std::string_view role_of_slot(std::string_view rest) {
  auto parts = components(rest);
  const std::string_view name = without_output(parts.back());
  if (name == "iter" || name == "iteration" || name == "iterations") return "step";
  if (name == "learning_rate" || name == "lr") return "progress";
  if (parts.front() == "training") parts.erase(parts.begin());
  if (parts.size() < 2) return "unknown";
  const std::string optimizer = lower(parts.front());
  if (const auto role = role_of_moment(name, optimizer); role != "unknown") return role;
  if (parts.size() > 2) {
    if (const auto role = role_of_moment(parts[1], optimizer); role != "unknown") return role;
  }
  for (const std::string_view slot : {"momentum", "velocity"}) {
    if (name.ends_with("_" + std::string(slot))) return role_of_moment(slot, optimizer);
  }
  return "unknown";
}

/// "layers/dense_1/vars/0": the group of a layer's variables is called `vars`, and they have numbers.
bool is_numbered_variable(std::string_view path) {
  return is_number(leaf_of(path)) && leaf_of(parent_of(path)) == "vars";
}

/// The variables of one group, by number: those that are there from 0 on without a gap.
std::vector<const Dataset*> variables_of(const Catalog& catalog, const std::string& group) {
  std::vector<const Dataset*> all;
  while (const Dataset* const next = catalog.find(group + '/' + std::to_string(all.size())))
    all.push_back(next);
  return all;
}

enum class Kind { unknown, kernel, cell, batch_norm, norm, statistics, single, seed };

/// A layer's kind by its class, whose name in snake case Keras uses as the group's name.
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
  const bool convolution = stem.find("conv1d") != std::string_view::npos ||
                           stem.find("conv2d") != std::string_view::npos ||
                           stem.find("conv3d") != std::string_view::npos;
  return convolution || stem.ends_with("dense") ? Kind::kernel : Kind::unknown;
}

/// Role of variable `number` of a layer: trained ones first, in the order in which the layer makes them.
std::string_view role_in_layer(Kind kind, const std::vector<const Dataset*>& all, std::size_t number) {
  const std::size_t count = all.size();
  const bool last = number + 1 == count;
  switch (kind) {
    case Kind::kernel:  // a separable convolution has two kernels; more are quantisation or adapters
      if (count > 3) return "unknown";
      if (count == 1 || !last) return "weight";
      return all[number]->shape.size() < all.front()->shape.size() ? "bias" : "weight";
    case Kind::cell:  // kernel, recurrent kernel, bias
      if (count > 3) return "unknown";
      return number < 2 ? "weight" : "bias";
    case Kind::batch_norm:  // gamma and beta where they are, moving mean, moving variance
      return count >= 2 && count <= 4 && number + 2 >= count ? "running_stat"
             : count <= 4                                    ? "norm"
                                                             : "unknown";
    case Kind::norm:
      return count <= 2 ? "norm" : "unknown";
    case Kind::statistics:
      return "running_stat";
    case Kind::single:
      return count == 1 ? "weight" : "unknown";
    case Kind::seed:
      return "rng";
    case Kind::unknown:
      break;
  }
  // A class or attribute of the user's: a matrix and a vector as long as its last dimension.
  const bool pair = count == 2 && all[0]->shape.size() >= 2 && all[1]->shape.size() == 1 &&
                    all[0]->shape.back() == all[1]->shape.front();
  if (!pair) return "unknown";
  return number == 0 ? "weight" : "bias";
}

/// optimizer/vars: iteration, learning rate, then slots. Adam's come in pairs, SGD's one by one.
std::string_view role_in_optimizer(const std::string& optimizer, const std::vector<const Dataset*>& all,
                                   std::size_t number) {
  if (number == 0) return "step";
  if (number == 1) return all[1]->shape.empty() ? "progress" : "unknown";
  if (optimizer == "sgd") return "momentum";
  if (optimizer != "adam" && optimizer != "adamw" && optimizer != "adam_w" && optimizer != "lamb")
    return "unknown";
  if (all.size() % 2 != 0) return "unknown";
  for (std::size_t i = 2; i < all.size(); i += 2) {
    if (all[i]->shape != all[i + 1]->shape) return "unknown";  // amsgrad: a third slot
  }
  return number % 2 == 0 ? "exp_avg" : "exp_avg_sq";
}

std::string_view without_prefix(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) ? path.substr(prefix.size()) : path;
}

Place numbered_place(const Catalog& catalog, const GroupTexts& texts, const Dataset& dataset) {
  const std::string group(parent_of(dataset.path));
  const std::string_view owner = parent_of(group);
  const auto all = variables_of(catalog, group);
  const auto number =
      std::min<std::size_t>(std::stoull(std::string(leaf_of(dataset.path)).substr(0, 9)), all.size());
  if (number == all.size()) return {};  // a gap before it
  const auto name = [&] {
    const std::vector<std::string> given = texts(group, "name");
    return given.empty() ? std::string() : lower(given.front());
  };
  // The second optimizer of a process has the name "adam_1".
  if (owner == "optimizer")
    return {std::string(role_in_optimizer(std::string(without_number(name())), all, number)), ""};
  if (owner.empty() || owner.starts_with("optimizer/") || owner.find("metrics") != std::string_view::npos)
    return {};
  Kind kind = kind_of(leaf_of(owner));
  if (kind == Kind::unknown) kind = kind_of(name());
  const std::string_view layer =
      without_prefix(without_prefix(owner, "_layer_checkpoint_dependencies/"), "layers/");
  return {std::string(role_in_layer(kind, all, number)), kind == Kind::seed ? "" : std::string(layer)};
}

}  // namespace

bool is_keras(const Catalog& catalog, const GroupTexts& texts, std::string& prefix) {
  prefix = catalog.has_group("model_weights") ? "model_weights" : "";
  if (!long_texts(texts, prefix, "layer_names").empty()) return true;
  return !prefix.empty() && !texts("", "keras_version").empty();
}

std::vector<Place> keras_places(const Catalog& catalog, const GroupTexts& texts, const std::string& prefix,
                                std::vector<std::string>& order) {
  order = long_texts(texts, prefix, "layer_names");
  const std::set<std::string_view> names(order.begin(), order.end());
  const std::string lead = prefix.empty() ? "" : prefix + '/';
  constexpr std::string_view optimizer = "optimizer_weights/";
  std::vector<Place> places;
  for (const Dataset& dataset : catalog.datasets()) {
    const std::string_view path = dataset.path;
    if (path.starts_with(optimizer)) {
      const std::string_view rest = path.substr(optimizer.size());
      Place place{std::string(role_of_slot(rest)), ""};
      for (const std::string_view part : components(rest)) {
        if (place.layer.empty() && names.contains(part)) place.layer = part;
      }
      places.push_back(std::move(place));
    } else if (path.starts_with(lead) && path.find('/', lead.size()) != std::string_view::npos) {
      const std::string_view rest = path.substr(lead.size());
      const std::string_view layer = rest.substr(0, rest.find('/'));
      const bool listed = names.empty() || names.contains(layer);
      places.push_back(
          {std::string(role_of_variable(leaf_of(path), layer)), listed ? std::string(layer) : ""});
    } else {
      places.emplace_back();
    }
  }
  return places;
}

bool is_keras_v3(const Catalog& catalog) {
  return std::any_of(catalog.datasets().begin(), catalog.datasets().end(),
                     [](const Dataset& dataset) { return is_numbered_variable(dataset.path); });
}

std::vector<Place> keras_v3_places(const Catalog& catalog, const GroupTexts& texts) {
  std::vector<Place> places;
  for (const Dataset& dataset : catalog.datasets()) {
    places.push_back(is_numbered_variable(dataset.path) ? numbered_place(catalog, texts, dataset) : Place{});
  }
  return places;
}

}  // namespace bitrift::ckpt
