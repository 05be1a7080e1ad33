// AlexNet and VGG: a row of convolutions, then three linear layers; keys as in torchvision.
#include "nn/vision/convnets.h"

#include "nn/vision/vision_parts.h"

namespace bitrift::nn {
namespace {

constexpr double published_dropout = 0.5;

std::string feature(std::int64_t index) { return "features." + std::to_string(index); }

}  // namespace

Layers make_alexnet(const ModelDescription& model) {
  struct Row {
    std::int64_t index, outputs;
    Window window;
    bool pooled;
  };
  const std::vector<Row> rows = {{0, 64, {.kernel = 11, .stride = 4, .padding = 2}, true},
                                 {3, 192, {.kernel = 5, .stride = 1, .padding = 2}, true},
                                 {6, 384, {.kernel = 3, .stride = 1, .padding = 1}, false},
                                 {8, 256, {.kernel = 3, .stride = 1, .padding = 1}, false},
                                 {10, 256, {.kernel = 3, .stride = 1, .padding = 1}, true}};
  const Window pool{.kernel = 3, .stride = 2};
  Layers layers;
  Shape shape = model.input;
  for (const Row& row : rows) {
    const Init init = Init::fan_in(shape[0] * row.window.kernel * row.window.kernel);
    layers.push_back(std::make_unique<ConvUnit>(
        Conv::Options{.key = feature(row.index), .weight = init, .bias = init}, shape,
        vision_width(model, row.outputs), row.window, row.pooled ? std::optional(pool) : std::nullopt));
    shape = layers.back()->output_shape();
  }
  const double p = model.dropout.value_or(published_dropout);
  const std::int64_t hidden = vision_width(model, 4096);
  layers.push_back(std::make_unique<LinearUnit>(
      "classifier.1", shape, hidden,
      LinearUnit::Options{.pool = 6, .relu = true, .dropout_before = "classifier.0", .probability = p}));
  layers.push_back(std::make_unique<LinearUnit>(
      "classifier.4", Shape{hidden}, hidden,
      LinearUnit::Options{.relu = true, .dropout_before = "classifier.3", .probability = p}));
  layers.push_back(
      std::make_unique<LinearUnit>("classifier.6", Shape{hidden}, model.classes, LinearUnit::Options{}));
  return layers;
}

Layers make_vgg16(const ModelDescription& model, bool batch_norm) {
  // Configuration D of the paper's table 1: convolutions of equal width, and a pooling after each group.
  const std::vector<std::vector<std::int64_t>> groups = {
      {64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}};
  const Window window{.kernel = 3, .stride = 1, .padding = 1};
  Layers layers;
  Shape shape = model.input;
  std::int64_t index = 0;  // in torchvision's nn.Sequential, which counts every module
  for (const auto& group : groups) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      const bool last = i + 1 == group.size();
      layers.push_back(
          std::make_unique<ConvUnit>(Conv::Options{.key = feature(index),
                                                   .norm = batch_norm ? feature(index + 1) : std::string(),
                                                   .bias = Init::constant(0)},
                                     shape, vision_width(model, group[i]), window,
                                     last ? std::optional(Window{.kernel = 2, .stride = 2}) : std::nullopt));
      shape = layers.back()->output_shape();
      index += (batch_norm ? 3 : 2) + (last ? 1 : 0);
    }
  }
  const std::int64_t hidden = vision_width(model, 4096);
  LinearUnit::Options options{.pool = 7,
                              .relu = true,
                              .dropout_after = "classifier.2",
                              .probability = model.dropout.value_or(published_dropout),
                              .weight = Init::normal(0.01),
                              .bias = Init::constant(0)};
  layers.push_back(std::make_unique<LinearUnit>("classifier.0", shape, hidden, options));
  options.pool = 0;
  options.dropout_after = "classifier.5";
  layers.push_back(std::make_unique<LinearUnit>("classifier.3", Shape{hidden}, hidden, options));
  options.relu = false;
  options.dropout_after.clear();
  layers.push_back(std::make_unique<LinearUnit>("classifier.6", Shape{hidden}, model.classes, options));
  return layers;
}

}  // namespace bitrift::nn
