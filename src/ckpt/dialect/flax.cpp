#include "ckpt/dialect/flax.h"

#include <array>
#include <map>
#include <optional>
#include <set>

#include <fmt/ranges.h>

namespace bitrift::ckpt {
namespace {

using Parts = std::vector<std::string_view>;

constexpr std::array<std::string_view, 6> collections = {"params", "batch_stats", "model",
                                                         "state",  "target",      "train_state"};
constexpr std::array<std::string_view, 6> states_of_optimizers = {"opt_state", "opt_states",      "optimizer",
                                                                  "optim",     "optimizer_state", "opt"};

/// "params/a/kernel", "params.a.kernel" and jax.tree_util.keystr's "['params']['a']['kernel']" alike. NNX may
/// store the value of a variable below its name.
Parts parts_of(std::string_view path) {
  Parts parts;
  for (const std::string_view part : components(path, "./[]'\"")) {
    if (!part.empty()) parts.push_back(part);
  }
  if (parts.size() > 1 && (parts.back() == "value" || parts.back() == "raw_value")) parts.pop_back();
  return parts;
}

/// The names of modules, joined as in the path.
std::string layer_of(std::string_view path, const Parts& modules) {
  const bool dots = path.find_first_of("/[") == std::string_view::npos;
  return fmt::format("{}", fmt::join(modules, dots ? "." : "/"));
}

/// Without the names of collections before them.
Parts without_collections(Parts parts) {
  const auto begin = std::find_if_not(parts.begin(), parts.end(),
                                      [](std::string_view one) { return is_one_of(one, collections); });
  parts.erase(parts.begin(), begin);
  return parts;
}

/// The variables of each module: "params/a/kernel" adds "kernel" and its shape to the module "a".
using Modules = std::map<Parts, std::map<std::string_view, const Dataset*>>;

Parts module_of(const Parts& path) {
  Parts module = without_collections(path);
  if (!module.empty()) module.pop_back();
  return module;
}

/// A variable of a module by its name and those beside it (flax.linen.normalization, flax.nnx.nn).
std::string role_of_variable(std::string_view name, const Dataset& variable, std::string_view module,
                             const std::map<std::string_view, const Dataset*>& beside) {
  const auto is_beside = [&](std::string_view other) { return beside.contains(other); };
  const bool vector = variable.shape.size() == 1;
  const auto is_as_long_as = [&](std::string_view other) {
    return is_beside(other) && beside.at(other)->shape == variable.shape;
  };
  constexpr std::array<std::string_view, 7> weights = {"kernel", "embedding", "negative_slope", "lora_a",
                                                       "lora_b", "cls",       "pos_embed"};
  if (is_one_of(name, weights) || name.ends_with("_embedding")) return "weight";
  if (name == "w" && variable.shape.size() > 1) return "weight";
  if (name == "bias") return vector && (is_as_long_as("scale") || names_a_norm(module)) ? "norm" : "bias";
  if (name == "scale") return vector && (is_as_long_as("bias") || names_a_norm(module)) ? "norm" : "unknown";
  if ((name == "mean" && is_beside("var")) || (name == "var" && is_beside("mean"))) return "running_stat";
  return "unknown";
}

/// States that hold those of other transformations (optax.chain, multi_transform, inject_hyperparams,
/// MultiSteps).
bool holds_states(std::string_view name) {
  return is_number(name) || name == "inner_state" || name == "inner_states" || name == "inner_opt_state" ||
         name == "base_optimizer_state";
}

/// A value of an Optax state; `at`: the first name in it.
Place place_of_state(std::string_view path, const Parts& parts, std::size_t at) {
  for (; at + 1 < parts.size() && holds_states(parts[at]); ++at) {
    if (parts[at] == "inner_states" && at + 2 < parts.size()) ++at;  // the label of a group of parameters
  }
  static const std::map<std::string_view, std::string_view> slots = {
      {"mu", "exp_avg"}, {"nu", "exp_avg_sq"}, {"trace", "momentum"}};
  static const std::set<std::string_view> counters = {"count", "step", "step_count", "mini_step",
                                                      "gradient_step"};
  const std::string_view name = parts[at];
  const bool last = at + 1 == parts.size();
  if (last && counters.contains(name)) return {"step", ""};
  if (last && name == "rng_key") return {"rng", ""};
  if (name == "hyperparams" && parts.back() == "learning_rate") return {"progress", ""};
  const auto slot = slots.find(name);
  if (slot == slots.end()) return {};
  const Parts rest(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1, parts.end());
  return {std::string(slot->second), layer_of(path, module_of(rest))};
}

/// Where the state of an optimizer begins among these names, if they lead into one. A file of the optimizer
/// alone begins with the number of a transformation.
std::optional<std::size_t> state_in(const Parts& parts) {
  bool before_modules = true;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    if (parts[i] == "opt_state" || (before_modules && is_one_of(parts[i], states_of_optimizers)))
      return i + 1;
    before_modules = before_modules && (is_one_of(parts[i], collections) || is_number(parts[i]));
  }
  if (!holds_states(parts.front()) || place_of_state("", parts, 0).role == "unknown") return {};
  return 0;
}

Place place_of(const Dataset& dataset, const Parts& parts, const Modules& modules) {
  if (parts.empty()) return {};
  if (const auto state = state_in(parts)) return place_of_state(dataset.path, parts, *state);
  if (std::find(parts.begin(), parts.end(), "rngs") != parts.end()) return {"rng", ""};
  const Parts module = module_of(parts);
  if (module.empty() && parts.back() == "step") return {"step", ""};
  if (module.empty() && parts.back() == "epoch") return {"progress", ""};
  return {role_of_variable(parts.back(), dataset, module.empty() ? "" : module.back(), modules.at(module)),
          layer_of(dataset.path, module)};
}

}  // namespace

bool is_flax(const Catalog& catalog) {
  std::size_t flax = 0, pytorch = 0;
  for (const Dataset& dataset : catalog.datasets()) {
    const Parts parts = parts_of(dataset.path);
    if (parts.empty()) continue;
    flax += parts.back() == "kernel" || parts.back() == "embedding" ? 1 : 0;
    pytorch += parts.back() == "weight" ? 1 : 0;
  }
  return flax > pytorch;
}

std::vector<Place> flax_places(const Catalog& catalog) {
  Modules modules;
  for (const Dataset& dataset : catalog.datasets()) {
    const Parts parts = parts_of(dataset.path);
    if (!parts.empty() && !state_in(parts)) modules[module_of(parts)][parts.back()] = &dataset;
  }
  std::vector<Place> places;
  for (const Dataset& dataset : catalog.datasets())
    places.push_back(place_of(dataset, parts_of(dataset.path), modules));
  return places;
}

}  // namespace bitrift::ckpt
