#include "ckpt/dialect/chainer_caffe.h"

#include <array>
#include <map>

// Chainer's serializers, and Caffe's .caffemodel.h5 and .solverstate.h5.

namespace bitrift::ckpt {
namespace {

/// Parameters and persistent values of Chainer's links, by their attribute names.
std::string_view role_in_link(std::string_view name) {
  static const std::map<std::string_view, std::string_view> roles = {{"W", "weight"},
                                                                     {"b", "bias"},
                                                                     {"gamma", "norm"},
                                                                     {"beta", "norm"},
                                                                     {"N", "running_stat"},
                                                                     {"avg_mean", "running_stat"},
                                                                     {"avg_var", "running_stat"}};
  const auto at = roles.find(name);
  if (at != roles.end()) return at->second;
  // NStepRNN and related links: w0 .. w7, b0 .. b7.
  if (name.size() == 2 && is_number(name.substr(1))) {
    if (name.front() == 'w') return "weight";
    if (name.front() == 'b') return "bias";
  }
  return "unknown";
}

/// State of an update rule, under the path of its parameter: .../conv1/W/m.
std::string_view role_in_rule(const Catalog& catalog, std::string_view path) {
  const std::string_view name = leaf_of(path);
  const std::string group(parent_of(path));
  if (name == "t") return "step";
  if (name == "m") return "exp_avg";
  if (name == "v") return catalog.find(group + "/m") != nullptr ? "exp_avg_sq" : "momentum";
  return name == "ms" ? "exp_avg_sq" : "unknown";  // RMSprop's mean of squares
}

/// "updater/model:main/predictor/conv1/W" -> "predictor/conv1/W"; the kind is "model", "optimizer" or "".
std::string_view in_updater(std::string_view path, std::string_view& kind) {
  kind = "";
  constexpr std::string_view updater = "updater/";
  if (!path.starts_with(updater)) return path;
  const std::string_view rest = path.substr(updater.size());
  const std::size_t slash = rest.find('/');
  const std::size_t colon = rest.find(':');
  if (slash == std::string_view::npos || colon > slash) return path;
  kind = rest.substr(0, colon);
  return rest.substr(slash + 1);
}

bool is_rule_of_parameter(const Catalog& catalog, std::string_view path) {
  return role_in_rule(catalog, path) != "unknown" && role_in_link(leaf_of(parent_of(path))) != "unknown";
}

Place chainer_place(const Catalog& catalog, const Dataset& dataset) {
  std::string_view kind;
  const std::string_view path = in_updater(dataset.path, kind);
  if (path == "epoch" || dataset.path == "updater/iteration") return {"progress", ""};
  if (kind == "iterator") return {"progress", ""};
  if (kind == "optimizer" && path == "t") return {"step", ""};
  if (kind.empty() && (path == "t" || path.starts_with("updater/") || path.starts_with("extension"))) {
    return {path == "t" ? "step" : "unknown", ""};
  }
  if (is_rule_of_parameter(catalog, dataset.path)) {
    return {std::string(role_in_rule(catalog, dataset.path)), std::string(parent_of(parent_of(path)))};
  }
  if (kind == "optimizer") return {};
  return {std::string(role_in_link(leaf_of(path))), std::string(parent_of(path))};
}

/// Blobs of one Caffe layer: data/LAYER/0, /1, ...
std::vector<const Dataset*> blobs_of(const Catalog& catalog, const std::string& group) {
  std::vector<const Dataset*> blobs;
  while (const Dataset* const next = catalog.find(group + '/' + std::to_string(blobs.size())))
    blobs.push_back(next);
  return blobs;
}

/// A vector, with or without the leading ones of blobs that once had four axes.
bool is_vector(const Dataset& blob, std::size_t number) {
  if (blob.shape.size() <= 1) return true;
  return number > 0 &&
         std::all_of(blob.shape.begin(), blob.shape.end() - 1,
                     [](std::uint64_t length) { return length == 1; }) &&
         blob.shape.size() == 4;
}

/// Caffe numbers blobs and does not say what a layer is, so the shapes must tell.
std::string_view role_of_blob(const std::vector<const Dataset*>& blobs, std::size_t number) {
  const Dataset& first = *blobs.front();
  if (!is_vector(first, 0)) return is_vector(*blobs[number], number) ? "bias" : "weight";
  // BatchNorm: mean, variance, and the factor by which both were multiplied.
  if (blobs.size() == 3 && first.shape == blobs[1]->shape &&
      blobs[2]->shape == std::vector<std::uint64_t>{1}) {
    return "running_stat";
  }
  // Scale: the gamma and beta after a BatchNorm.
  return blobs.size() == 2 && first.shape == blobs[1]->shape ? "norm" : "unknown";
}

/// Histories: one a parameter (SGD, Nesterov), or first and then second moments of all (Adam).
std::string_view role_of_history(const std::vector<const Dataset*>& histories, std::size_t number) {
  const std::size_t half = histories.size() / 2;
  bool twice = histories.size() % 2 == 0;
  for (std::size_t i = 0; twice && i < half; ++i) twice = histories[i]->shape == histories[i + half]->shape;
  if (!twice) return "momentum";
  return number < half ? "exp_avg" : "exp_avg_sq";
}

Place caffe_place(const Catalog& catalog, const Dataset& dataset) {
  const std::string_view path = dataset.path;
  if (path == "iter") return {"step", ""};
  if (path == "current_step" || path == "iter_last_event" || path == "minimum_loss") return {"progress", ""};
  const std::string_view top = path.substr(0, path.find('/'));
  const std::string group(parent_of(path));
  if (!is_number(leaf_of(path)) || (top != "data" && top != "diff" && group != "history")) return {};
  const auto blobs = blobs_of(catalog, group);
  const auto number = std::stoull(std::string(leaf_of(path)).substr(0, 9));
  if (group == "history") {
    return number < blobs.size() ? Place{std::string(role_of_history(blobs, number)), ""} : Place{};
  }
  const std::size_t lead = top.size() + 1;
  const std::string layer = group.size() > lead ? group.substr(lead) : std::string();
  if (top == "diff" || number >= blobs.size()) return {"unknown", layer};
  return {std::string(role_of_blob(blobs, number)), layer};
}

}  // namespace

bool is_chainer(const Catalog& catalog) {
  std::size_t links = 0, modules = 0;
  for (const Dataset& dataset : catalog.datasets()) {
    if (dataset.path.starts_with("updater/model:") || dataset.path.starts_with("updater/optimizer:"))
      return true;
    const std::string_view path = dataset.path;
    const std::string_view name = leaf_of(path);
    links += name == "W" || name == "avg_mean" || name == "avg_var" ? 1 : 0;
    links += leaf_of(parent_of(path)) == "W" && is_rule_of_parameter(catalog, path) ? 1 : 0;
    const std::string_view key = name.substr(name.rfind('.') + 1);
    modules += key == "weight" || key == "running_mean" || key == "running_var" ? 1 : 0;
  }
  return links > modules;
}

std::vector<Place> chainer_places(const Catalog& catalog) {
  std::vector<Place> places;
  for (const Dataset& dataset : catalog.datasets()) places.push_back(chainer_place(catalog, dataset));
  return places;
}

bool is_caffe(const Catalog& catalog) {
  if (catalog.find("iter") != nullptr && catalog.find("history/0") != nullptr) return true;
  bool blobs = false;
  for (const Dataset& dataset : catalog.datasets()) {
    const std::string_view path = dataset.path;
    const std::string_view top = path.substr(0, path.find('/'));
    if (top != "data" && top != "diff") return false;
    if (!is_number(leaf_of(path)) || parent_of(parent_of(path)).empty()) return false;
    blobs = blobs || top == "data";
  }
  return blobs;
}

std::vector<Place> caffe_places(const Catalog& catalog) {
  std::vector<Place> places;
  for (const Dataset& dataset : catalog.datasets()) places.push_back(caffe_place(catalog, dataset));
  return places;
}

}  // namespace bitrift::ckpt
