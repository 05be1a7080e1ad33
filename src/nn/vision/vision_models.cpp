#include "nn/vision/vision_models.h"

#include <algorithm>

#include "core/error.h"
#include "nn/vision/convnets.h"
#include "nn/vision/googlenet.h"
#include "nn/vision/resnet.h"

namespace bitrift::nn {
namespace {

Layers make(const ModelDescription& model) {
  switch (model.name) {
    case record::ModelName::resnet20:
      return make_resnet20(model);
    case record::ModelName::resnet18:
      return make_resnet(model, false);
    case record::ModelName::resnet50:
      return make_resnet(model, true);
    case record::ModelName::alexnet:
      return make_alexnet(model);
    case record::ModelName::vgg16:
      return make_vgg16(model, false);
    case record::ModelName::vgg16_bn:
      return make_vgg16(model, true);
    case record::ModelName::googlenet:
      return make_googlenet(model);
    default:
      fail(ErrorCode::internal, "{} is not a vision model", name_of(model.name));
  }
}

// An extent that no window fits stays 0 up to the adaptive pooling before the classifier.
bool images_fit(const Layers& layers) {
  return std::ranges::all_of(layers, [](const auto& layer) {
    const auto& shape = layer->input_shape();
    return shape.size() < 3 || (shape[1] > 0 && shape[2] > 0);
  });
}

}  // namespace

Layers make_vision_model(const ModelDescription& model) {
  Layers layers = make(model);
  if (images_fit(layers)) return layers;
  // Layers that are not built hold no memory, so every size can be tried.
  ModelDescription probe = model;
  std::int64_t side = 0;
  do {
    ++side;
    probe.input = {model.input[0], side, side};
  } while (!images_fit(make(probe)));
  fail(ErrorCode::bad_input, "model {} needs images of at least {}x{} pixels, these have {}x{}",
       name_of(model.name), side, side, model.input[1], model.input[2]);
}

}  // namespace bitrift::nn
