#include "ckpt/dialect/outline.h"

#include <set>

#include "ckpt/dialect/chainer_caffe.h"
#include "ckpt/dialect/keras.h"
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
  places = pytorch_places(catalog, false);
  static const std::set<std::string, std::less<>> telling = {
      "weight", "bias", "norm", "running_stat", "momentum", "exp_avg", "exp_avg_sq"};
  const bool recognised = std::any_of(places.begin(), places.end(),
                                      [](const Place& place) { return telling.contains(place.role); });
  return recognised ? "pytorch" : "unknown";
}

}  // namespace

const std::vector<std::string>& layout_names() {
  static const std::vector<std::string> names = {"bitrift", "keras",   "keras-v3", "chainer",
                                                 "caffe",   "pytorch", "unknown"};
  return names;
}

Outline outline_of(const std::vector<Dataset>& datasets, const GroupTexts& texts) {
  Outline outline;
  std::vector<Place> places;
  outline.layout = places_of(Catalog(datasets), texts, places, outline.order);
  for (Place& place : places) {
    outline.roles.push_back(std::move(place.role));
    outline.layers.push_back(std::move(place.layer));
  }
  return outline;
}

}  // namespace bitrift::ckpt
