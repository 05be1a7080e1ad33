#include "ckpt/dialect/roles.h"

#include <array>
#include <optional>

#include <fmt/format.h>

#include "ckpt/dialect/catalog.h"

namespace bitrift::ckpt {
namespace {

constexpr const char* kSeparators = "./";

bool is_running_stat(std::string_view name) {
  return name == "running_mean" || name == "running_var" || name == "num_batches_tracked";
}

/// A parameter or buffer by its last name: "conv1.weight" and "conv1/weight" alike.
template <class Has>
std::string role_of_parameter(std::string_view path, const Has& has) {
  const std::size_t cut = path.find_last_of(kSeparators);
  const std::string module(cut == std::string_view::npos ? "" : path.substr(0, cut + 1));
  const std::string_view name = path.substr(module.size());
  if (is_running_stat(name)) return "running_stat";
  if (name != "weight" && name != "bias") return "unknown";
  return has(module + "running_mean") ? "norm" : std::string(name);
}

std::string role_of_optimizer_slot(std::string_view slot) {
  if (slot == "momentum_buffer") return "momentum";
  if (slot == "square_avg" || slot == "sqr_avg") return "exp_avg_sq";  // RMSprop's mean of squares; fastai's
  if (slot == "grad_avg") return "exp_avg";                            // fastai's optimizers
  if (slot == "exp_avg" || slot == "exp_avg_sq" || slot == "step") return std::string(slot);
  return "unknown";
}

/// What follows the name of a rank's file of DeepSpeed: "mp_rank_00_model_states/module/fc.weight" ->
/// "module/fc.weight". Not after "layer_03-model_00-model_states/", the name of a pipeline's layer.
std::string_view path_in_rank(std::string_view path) {
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos) return path;
  const std::string_view file = path.substr(0, slash);
  const bool rank = file.find("mp_rank_") != std::string_view::npos &&
                    (file.ends_with("model_states") || file.ends_with("optim_states"));
  return rank ? path.substr(slash + 1) : path;
}

/// "replica/2/model/bn1.weight" has the role of "model/bn1.weight", whose siblings may only be there.
std::string_view path_in_replica(std::string_view path) {
  constexpr std::string_view prefix = "replica/";
  if (!path.starts_with(prefix)) return path_in_rank(path);
  const std::size_t end = path.find_first_not_of("0123456789", prefix.size());
  if (end == prefix.size() || end == std::string_view::npos || path[end] != '/') return path;
  return path.substr(end + 1);
}

template <class Has>
std::string role_among(std::string_view path, const Has& has) {
  path = path_in_replica(path);
  const std::size_t slash = path.find('/');
  const std::string_view top = path.substr(0, slash);
  if (slash != std::string_view::npos) {
    if (top == "checksum" || top == "rng" || top == "progress") return std::string(top);
    if (top == "optimizer") {
      const std::string_view rest = path.substr(slash + 1);
      return role_of_optimizer_slot(rest.substr(0, rest.find('/')));
    }
  }
  return role_of_parameter(path, has);
}

bool is_optimizer(std::string_view name) {
  return is_one_of<5>(name,
                      {"optimizer", "optimizer_state_dict", "optimizer_state", "optim", "optimizer_states"});
}

/// A key of a state_dict without the names of its containers: "model/module.conv1.weight" -> "conv1.weight".
std::string_view module_key_of(std::string_view path) {
  for (;;) {
    const std::size_t cut = path.find_first_of(kSeparators);
    if (cut == std::string_view::npos) return path;
    if (!is_one_of<8>(path.substr(0, cut), {"model", "state_dict", "model_state_dict", "module", "net",
                                            "network", "parameters", "buffers"})) {
      return path;
    }
    path.remove_prefix(cut + 1);
  }
}

std::string layer_of_key(std::string_view key) {
  const std::size_t cut = key.find_last_of(kSeparators);
  return cut == std::string_view::npos ? std::string() : std::string(key.substr(0, cut));
}

/// Layers whose weight and bias parameters have other names: recurrent ones, attention's joint projection,
/// weight normalisation (torch.nn.RNNBase and RNNCellBase, MultiheadAttention, utils.weight_norm,
/// utils.parametrizations), experts that share a tensor, and embeddings that are parameters of a model
/// (transformers, timm).
/// parent: the name before `name`.
std::string role_of_variant(std::string_view name, std::string_view parent, std::size_t dimensions) {
  if (is_one_of<4>(name, {"weight_g", "weight_v", "weight_orig", "in_proj_weight"})) return "weight";
  if (is_one_of<3>(name, {"q_proj_weight", "k_proj_weight", "v_proj_weight"})) return "weight";
  constexpr std::array<std::string_view, 6> biases = {"q_bias", "k_bias", "v_bias",
                                                      "bias_k", "bias_v", "final_logits_bias"};
  if (is_one_of(name, biases) || name.ends_with("_proj_bias")) return "bias";
  const bool kept = is_one_of<3>(name, {"original", "original0", "original1"});
  if (kept && (parent == "weight" || parent == "bias")) return std::string(parent);
  for (const std::string_view kind : {"weight", "bias"}) {
    if (!name.starts_with(kind)) continue;
    const std::string_view of = name.substr(kind.size());  // a cell has no number
    if (of == "_ih" || of == "_hh") return std::string(kind);
    if (of.starts_with("_ih_l") || of.starts_with("_hh_l") || of.starts_with("_hr_l"))
      return std::string(kind);
  }
  // A diagonal matrix: Touvron et al., "Going deeper with image transformers" (ICCV 2021), section 2.
  const std::string_view block = without_number(parent);
  const bool scales = name == "layer_scale_parameter" || block == "layer_scale" || block == "ls";
  if (dimensions == 1 && scales) return "weight";
  constexpr std::array<std::string_view, 17> matrices = {"gate_up_proj",
                                                         "gate_proj",
                                                         "up_proj",
                                                         "down_proj",
                                                         "cls_token",
                                                         "dist_token",
                                                         "mask_token",
                                                         "reg_token",
                                                         "register_tokens",
                                                         "query_tokens",
                                                         "pos_embed",
                                                         "position_embeddings",
                                                         "class_embedding",
                                                         "masked_spec_embed",
                                                         "attention_biases",
                                                         "positional_embedding",
                                                         "relative_position_bias_table"};
  return dimensions > 0 && is_one_of(without_number(name), matrices) ? "weight" : "unknown";
}

/// What trainers keep beside a model and its optimizer: callbacks, schedulers and the like have no layers.
bool is_beside_model(std::string_view top) {
  return is_one_of<8>(top, {"callbacks", "loops", "lr_schedulers", "averaging_state", "hyper_parameters",
                            "scheduler", "scaler", "amp_scaling_state"});
}

/// Layer, group and instance normalisation have no running mean; their weight and bias are both vectors.
bool is_norm_by_shape(const Catalog& catalog, const Dataset& dataset, std::string_view layer) {
  if (dataset.shape.size() != 1) return false;
  const std::string stem = dataset.path.substr(0, dataset.path.find_last_of(kSeparators) + 1);
  const Dataset* const weight = catalog.find(stem + "weight");
  const Dataset* const bias = catalog.find(stem + "bias");
  if (weight == nullptr || weight->shape != dataset.shape) return false;
  if (dataset.shape.front() == 0) return false;  // ZeRO 3 leaves every parameter without elements
  return bias != nullptr ? bias->shape == weight->shape : names_a_norm(layer);
}

/// The vectors that spectral normalisation improves in every step (torch.nn.utils.spectral_norm, and
/// utils.parametrizations.spectral_norm): each estimates a singular vector of a weight.
bool is_singular_vector(const Catalog& catalog, const Dataset& dataset, std::string_view name) {
  const bool old = name == "weight_u" || name == "weight_v";
  if (dataset.shape.size() != 1 || (!old && name != "_u" && name != "_v")) return false;
  std::string stem = dataset.path.substr(0, dataset.path.size() - name.size());
  if (old) return catalog.find(stem + "weight_orig") != nullptr;
  if (stem.empty()) return false;
  stem.pop_back();  // LAYER.parametrizations.weight.0._u beside LAYER.parametrizations.weight.original
  const std::size_t cut = stem.find_last_of(kSeparators);
  return cut != std::string::npos && is_number(std::string_view(stem).substr(cut + 1)) &&
         catalog.find(stem.substr(0, cut + 1) + "original") != nullptr;
}

/// "state" and "state0", "param_groups" and "group0".
bool is_part_of_optimizer(std::string_view name) {
  return name == "param_groups" || without_number(name) == "state" || without_number(name) == "group";
}

/// The first name that is a slot's: state/N/exp_avg, state/N/exp_avg/codes of a state that is quantized.
std::string role_of_slot(const std::vector<std::string_view>& parts) {
  for (const std::string_view part : parts) {
    if (std::string role = role_of_optimizer_slot(part); role != "unknown") return role;
  }
  return "unknown";
}

/// Where names precede the state_dict of an optimizer, the place of a slot or a rate in it, such as
/// opt/state/3/step, opts/0/state/3/exp_avg and opt/param_groups/0/lr. Its role is "unknown" if the slot is.
std::optional<Place> place_in_optimizer(std::string_view path) {
  const auto parts = components(path, "/");
  for (std::size_t i = 1; i + 2 < parts.size(); ++i) {
    if (!is_number(parts[i + 1])) continue;
    if (parts[i] == "param_groups" && parts.back() == "lr") return Place{"progress", ""};
    if (parts[i] == "state") {
      return Place{role_of_slot({parts.begin() + static_cast<std::ptrdiff_t>(i) + 2, parts.end()}), ""};
    }
  }
  return {};
}

/// exp_avg/KEY, or state/N/exp_avg, state0/exp_avg and state.N.exp_avg, or param_groups/0/lr; the latter also
/// after the number or name of one of several optimizers.
Place place_of_slot(std::string_view rest) {
  const std::size_t cut = rest.find('/');
  const std::string by_key = role_of_optimizer_slot(rest.substr(0, cut));
  if (cut != std::string_view::npos && by_key != "unknown") {
    return {by_key, layer_of_key(module_key_of(rest.substr(cut + 1)))};
  }
  auto parts = components(rest, kSeparators);
  if (parts.size() > 2 && !is_part_of_optimizer(parts[0]) && is_part_of_optimizer(parts[1]))
    parts.erase(parts.begin());
  if (parts.size() < 2) return {};
  if (without_number(parts.front()) == "state") return {role_of_slot(parts), ""};
  const bool group = parts.front() == "param_groups" || without_number(parts.front()) == "group";
  return group && parts.back() == "lr" ? Place{"progress", ""} : Place{};
}

/// A part of a parameter that is kept as several tensors, such as fc.weight/qdata and fc.weight/scale of a
/// quantized weight.
std::optional<Place> place_in_parameter(std::string_view path) {
  const std::size_t cut = path.find_last_of('/');
  if (cut == std::string_view::npos) return {};
  const std::string_view key = module_key_of(path.substr(0, cut));
  const std::string_view name = key.substr(key.find_last_of(kSeparators) + 1);
  if (name != "weight" && name != "bias") return {};
  return Place{std::string(name), layer_of_key(key)};
}

Place foreign_place(const Catalog& catalog, const Dataset& dataset) {
  const std::string_view path = path_in_replica(dataset.path);
  const std::size_t cut = path.find_first_of(kSeparators);
  const std::string_view top = path.substr(0, cut);
  if (cut == std::string_view::npos) {
    if (is_one_of<3>(path, {"epoch", "iteration", "global_step"})) return {"progress", ""};
  } else if (path[cut] == '/' && is_one_of<3>(top, {"checksum", "rng", "progress"})) {
    return {std::string(top), ""};
  } else if (is_optimizer(top)) {
    return place_of_slot(path.substr(cut + 1));
  } else if (top == "state" &&
             is_number(components(path, kSeparators)[1])) {  // a file of the optimizer alone
    return place_of_slot(path);
  }
  const std::optional<Place> slot = place_in_optimizer(path);
  if (slot && slot->role != "unknown") return *slot;
  const std::string_view key = module_key_of(path);
  Place place{role_among(dataset.path, [&](const std::string& one) { return catalog.find(one) != nullptr; }),
              layer_of_key(key)};
  if (cut != std::string_view::npos && path[cut] == '/' && is_beside_model(top)) return {place.role, ""};
  const std::string_view name = key.substr(key.find_last_of(kSeparators) + 1);
  const std::string parent = place.layer.substr(place.layer.find_last_of(kSeparators) + 1);
  if (is_singular_vector(catalog, dataset, name)) place.role = "running_stat";
  if (place.role == "unknown") place.role = role_of_variant(name, parent, dataset.shape.size());
  if (slot && place.role == "unknown") return *slot;
  if (place.role == "unknown") place = place_in_parameter(path).value_or(place);
  for (const std::string_view part : {".parametrizations.", "/parametrizations/"}) {  // a part of its layer
    if (const std::size_t at = place.layer.find(part); at != std::string::npos) place.layer.resize(at);
  }
  if ((place.role == "weight" || place.role == "bias") && is_norm_by_shape(catalog, dataset, place.layer)) {
    place.role = "norm";
  }
  return place;
}

/// fastai's optimizers call a mean of gradients the same whether it is Adam's, beside that of the squares, or
/// the momentum of SGD.
bool is_momentum_of_fastai(const Catalog& catalog, const std::string& path) {
  constexpr std::string_view name = "/grad_avg";
  return path.ends_with(name) &&
         catalog.find(path.substr(0, path.size() - name.size()) + "/sqr_avg") == nullptr;
}

Place own_place(const Catalog& catalog, const Dataset& dataset) {
  const auto has = [&](const std::string& path) { return catalog.find(path) != nullptr; };
  Place place{role_among(dataset.path, has), ""};
  std::string_view path = path_in_replica(dataset.path);
  if (path.starts_with("optimizer/")) {
    const std::size_t cut = path.find('/', std::string_view("optimizer/").size());
    if (cut != std::string_view::npos) place.layer = layer_of_key(path.substr(cut + 1));
  } else if (path.starts_with("model/")) {
    place.layer = layer_of_key(path.substr(std::string_view("model/").size()));
  }
  return place;
}

}  // namespace

bool is_optimizer_path(std::string_view path) {
  path = path_in_rank(path);
  return is_optimizer(path.substr(0, path.find_first_of(kSeparators)));
}

std::vector<Place> pytorch_places(const Catalog& catalog, bool ours) {
  std::vector<Place> places;
  for (const Dataset& dataset : catalog.datasets()) {
    places.push_back(ours ? own_place(catalog, dataset) : foreign_place(catalog, dataset));
    if (is_momentum_of_fastai(catalog, dataset.path)) places.back().role = "momentum";
  }
  return places;
}

const std::vector<std::string>& role_names() {
  static const std::vector<std::string> names = {"weight",   "bias",     "norm",       "running_stat",
                                                 "momentum", "exp_avg",  "exp_avg_sq", "step",
                                                 "rng",      "progress", "checksum",   "unknown"};
  return names;
}

}  // namespace bitrift::ckpt
