#include "nn/vision/vision_models.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "nn/vision/convnets.h"
#include "nn/vision/googlenet.h"
#include "nn/vision/resnet.h"

namespace bitrift::nn {
namespace {

struct VisionFamily {
  const char* name;
  Layers (*make)(const ModelDescription& model);
};

constexpr std::array<VisionFamily, 7> vision_families = {
    {{"resnet20", make_resnet20},
     {"resnet18", [](const ModelDescription& model) { return make_resnet(model, false); }},
     {"resnet50", [](const ModelDescription& model) { return make_resnet(model, true); }},
     {"alexnet", make_alexnet},
     {"vgg16", [](const ModelDescription& model) { return make_vgg16(model, false); }},
     {"vgg16_bn", [](const ModelDescription& model) { return make_vgg16(model, true); }},
     {"googlenet", make_googlenet}}};

// An extent that no window fits in stays 0 up to the adaptive pooling in front of the classifier.
bool images_fit(const Layers& layers) {
  return std::ranges::all_of(layers, [](const auto& layer) {
    const auto& shape = layer->input_shape();
    return shape.size() < 3 || (shape[1] > 0 && shape[2] > 0);
  });
}

}  // namespace

Layers make_vision_model(const ModelDescription& model) {
  const auto* family = std::ranges::find(vision_families, model.name, &VisionFamily::name);
  if (family == vision_families.end()) return {};
  Layers layers = family->make(model);
  if (images_fit(layers)) return layers;
  // Layers that are not built hold no memory, so every side can be tried.
  ModelDescription probe = model;
  std::int64_t side = 0;
  do {
    ++side;
    probe.input = {model.input[0], side, side};
  } while (!images_fit(family->make(probe)));
  fail(ErrorCode::bad_input, "model {} needs images of at least {}x{} pixels, these have {}x{}", model.name,
       side, side, model.input[1], model.input[2]);
}

}  // namespace bitrift::nn
