#include "ckpt/dialect/keras.h"

#include <map>
#include <set>

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
                              {"moving_mean", "running_stat"},
                              {"moving_variance", "running_stat"},
                              {"running_mean", "running_stat"},
                              {"running_std", "running_stat"},
                              {"seed_generator_state", "rng"}};
  name = without_output(name);
  if (name.size() > layer.size() + 1 && name.starts_with(layer) && name[layer.size()] == '_')
    name.remove_prefix(layer.size() + 1);
  // A layer with RMSNormalization; attention may have a scale too.
  if (without_number(name) == "scale" && lower(layer).find("norm") != std::string::npos) return "norm";
  const auto at = roles.find(without_number(name));
  return at == roles.end() ? std::string_view("unknown") : at->second;
}

/// First and second moments under Adam's names, "m" and "v"; what other optimizers call so is something else.
std::string_view role_of_moment(std::string_view name, const std::string& optimizer) {
  const bool adam = optimizer.starts_with("adam") || optimizer.starts_with("nadam") || optimizer == "lamb";
  const bool sgd = optimizer.starts_with("sgd");
  const bool rmsprop = optimizer.starts_with("rmsprop") || optimizer.starts_with("rm_sprop");
  if (name == "m" || name == "momentum") {
    if (adam) return "exp_avg";
    return sgd || rmsprop ? "momentum" : "unknown";
  }
  if (name == "v" || name == "velocity")
    return (adam && !optimizer.starts_with("adamax")) || rmsprop ? "exp_avg_sq" : "unknown";
  return name == "rms" && rmsprop ? "exp_avg_sq" : "unknown";
}

/// Under optimizer_weights: "Adam/conv1/kernel/m:0" (2.0 to 2.10), "Adam/m/conv1/kernel:0" (2.11 on) or
/// "adam/conv1_kernel_momentum" (3).
std::string_view role_of_slot(std::string_view rest) {
  auto parts = components(rest);
  const std::string_view name = without_output(parts.back());
  if (name == "iter" || name == "iteration" || name == "iterations") return "step";
  if (name == "learning_rate" || name == "lr") return "progress";
  if (name == "vhat" || name == "mg") return "unknown";
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

/// The names of layers, which may hold slashes.
class LayerNames {
 public:
  LayerNames(const std::vector<std::string>& names, const GroupTexts& texts, std::string lead)
      : names_(names.begin(), names.end()), texts_(texts), lead_(std::move(lead)) {}

  [[nodiscard]] bool empty() const noexcept { return names_.empty(); }
  /// The layer whose group holds a dataset, "LAYER/...". Chooses between the layers a and a/b: the one that
  /// lists the dataset among its weights, or else the longer name. "" for none.
  [[nodiscard]] std::string_view owner_of(std::string_view path) const {
    std::string_view longest, listed;
    for (std::size_t cut = path.find('/'); cut != std::string_view::npos; cut = path.find('/', cut + 1)) {
      const std::string_view name = path.substr(0, cut);
      if (!names_.contains(name)) continue;
      if (!longest.empty()) {
        if (listed.empty() && lists(longest, path)) listed = longest;
        if (lists(name, path)) listed = name;
      }
      longest = name;
    }
    return listed.empty() ? longest : listed;
  }
  /// The first layer that is named in the path of an optimizer's slot, after the optimizer.
  [[nodiscard]] std::string_view named_in(std::string_view path) const {
    for (std::size_t cut = path.find('/'); cut != std::string_view::npos; cut = path.find('/')) {
      path.remove_prefix(cut + 1);
      std::string_view found;
      for (std::size_t end = path.find('/'); end != std::string_view::npos; end = path.find('/', end + 1)) {
        if (names_.contains(path.substr(0, end))) found = path.substr(0, end);
      }
      if (!found.empty()) return found;
    }
    return {};
  }

 private:
  [[nodiscard]] bool lists(std::string_view layer, std::string_view path) const {
    const auto [at, added] = weights_.try_emplace(layer);
    if (added) {
      for (std::string& name : long_texts(texts_, lead_ + std::string(layer), "weight_names"))
        at->second.insert(std::move(name));
    }
    return at->second.contains(path.substr(layer.size() + 1));
  }

  std::set<std::string_view> names_;
  mutable std::map<std::string_view, std::set<std::string, std::less<>>>
      weights_;  // of layers that were asked for
  const GroupTexts& texts_;
  std::string lead_;
};

}  // namespace

bool is_keras(const Catalog& catalog, const GroupTexts& texts, std::string& prefix) {
  prefix = catalog.has_group("model_weights") ? "model_weights" : "";
  if (!long_texts(texts, prefix, "layer_names").empty()) return true;
  return !prefix.empty() && !texts("", "keras_version").empty();
}

std::vector<Place> keras_places(const Catalog& catalog, const GroupTexts& texts, const std::string& prefix,
                                std::vector<std::string>& order) {
  order = long_texts(texts, prefix, "layer_names");
  const std::string lead = prefix.empty() ? "" : prefix + '/';
  const LayerNames names(order, texts, lead);
  constexpr std::string_view optimizer = "optimizer_weights/";
  std::vector<Place> places;
  for (const Dataset& dataset : catalog.datasets()) {
    const std::string_view path = dataset.path;
    if (path.starts_with(optimizer)) {
      const std::string_view rest = path.substr(optimizer.size());
      places.push_back({std::string(role_of_slot(rest)), std::string(names.named_in(rest))});
    } else if (path.starts_with(lead) && path.find('/', lead.size()) != std::string_view::npos) {
      const std::string_view rest = path.substr(lead.size());
      const std::string_view first = rest.substr(0, rest.find('/'));
      const std::string_view layer = names.empty() ? first : names.owner_of(rest);
      places.push_back(
          {std::string(role_of_variable(leaf_of(path), layer.empty() ? first : layer)), std::string(layer)});
    } else {
      places.emplace_back();
    }
  }
  return places;
}

}  // namespace bitrift::ckpt
