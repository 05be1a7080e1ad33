#include "ckpt/dialect/outline.h"

#include <set>

#include "ckpt/dialect/chainer_caffe.h"
#include "ckpt/dialect/flax.h"
#include "ckpt/dialect/keras.h"
#include "ckpt/dialect/keras_v3.h"
#include "ckpt/dialect/roles.h"

namespace bitrift::ckpt {
namespace {

bool is_ours(const GroupTexts& texts) {
  const std::vector<std::string> schema = texts("", "schema");
  return schema.size() == 1 && schema.front().starts_with("bitrift/checkpoint/");
}

/// The layout, and the places of its datasets.
std::string places_of(const Catalog& catalog, const GroupTexts& texts, std::vector<Place>& places,
                      std::vector<std::string>& order) {
  std::string prefix;
  if (is_ours(texts)) {
    places = pytorch_places(catalog, true);
    return "bitrift";
  }
  if (is_keras(catalog, texts, prefix)) {
    places = keras_places(catalog, texts, prefix, order);
    return "keras";
  }
  if (is_keras_v3(catalog)) {
    places = keras_v3_places(catalog, texts);
    return "keras-v3";
  }
  if (is_caffe(catalog)) {
    places = caffe_places(catalog);
    return "caffe";
  }
  if (is_chainer(catalog)) {
    places = chainer_places(catalog);
    return "chainer";
  }
  if (is_flax(catalog)) {
    places = flax_places(catalog);
    return "flax";
  }
  places = pytorch_places(catalog, false);
  static const std::set<std::string, std::less<>> telling = {
      "weight", "bias", "norm", "running_stat", "momentum", "exp_avg", "exp_avg_sq"};
  const bool recognised = std::any_of(places.begin(), places.end(),
                                      [](const Place& place) { return telling.contains(place.role); });
  return recognised ? "pytorch" : "unknown";
}

/// Whether a tool has sorted the names: weights and biases are in alphabetical order, although some layer has
/// both, and PyTorch makes the weight first.
bool is_sorted_by_name(const std::vector<std::string>& written) {
  const std::string* last = nullptr;
  bool bias_first = false;
  for (const std::string& path : written) {
    const bool bias = path.ends_with("bias");
    if (!bias && !path.ends_with("weight")) continue;
    if (last != nullptr && path < *last) return false;
    bias_first = bias_first || (last != nullptr && !bias && last->ends_with("bias") &&
                                path.substr(0, path.size() - 6) == last->substr(0, last->size() - 4));
    last = &path;
  }
  return bias_first;
}

/// Layers in the order of a state_dict, in which its modules were made: those of the model, then those that
/// only its optimizer names.
std::vector<std::string> layers_as_written(const Catalog& catalog, const std::vector<Place>& places,
                                           const std::vector<std::string>& written) {
  std::vector<std::string> order;
  if (is_sorted_by_name(written)) return order;
  std::set<std::string_view> met;
  for (const bool slots : {false, true}) {
    for (const std::string& path : written) {
      const Dataset* const dataset = catalog.find(path);
      if (dataset == nullptr || is_optimizer_path(path) != slots) continue;
      const std::string& layer = places[static_cast<std::size_t>(dataset - catalog.datasets().data())].layer;
      if (!layer.empty() && met.insert(layer).second) order.push_back(layer);
    }
  }
  return order;
}

}  // namespace

const std::vector<std::string>& layout_names() {
  static const std::vector<std::string> names = {"bitrift", "keras", "keras-v3", "chainer",
                                                 "caffe",   "flax",  "pytorch",  "unknown"};
  return names;
}

Outline outline_of(const std::vector<Dataset>& datasets, const GroupTexts& texts,
                   const std::vector<std::string>& written) {
  Outline outline;
  std::vector<Place> places;
  const Catalog catalog(datasets);
  outline.layout = places_of(catalog, texts, places, outline.order);
  // The files of bitrift list their tensors by name.
  if (outline.layout == "pytorch" || outline.layout == "unknown") {
    outline.order = layers_as_written(catalog, places, written);
  }
  for (Place& place : places) {
    outline.roles.push_back(std::move(place.role));
    outline.layers.push_back(std::move(place.layer));
  }
  return outline;
}

}  // namespace bitrift::ckpt
