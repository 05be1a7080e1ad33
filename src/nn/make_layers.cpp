#include "nn/make_layers.h"

#include <array>
#include <string_view>

#include <fmt/ranges.h>

#include "core/error.h"
#include "nn/small_models.h"
#include "nn/text/transformer.h"
#include "nn/vision/vision_models.h"

namespace bitrift::nn {
namespace {

enum class Sample { text, image };

struct Family {
  std::string_view name;
  Sample sample;
  Layers (*make)(const ModelDescription&);
};

constexpr std::array families = {
    Family{"mlp", Sample::image, make_mlp},
    Family{"lenet", Sample::image, make_lenet},
    Family{"resnet20", Sample::image, make_vision_model},
    Family{"resnet18", Sample::image, make_vision_model},
    Family{"resnet50", Sample::image, make_vision_model},
    Family{"alexnet", Sample::image, make_vision_model},
    Family{"vgg16", Sample::image, make_vision_model},
    Family{"vgg16_bn", Sample::image, make_vision_model},
    Family{"googlenet", Sample::image, make_vision_model},
    Family{"gpt", Sample::text, make_gpt},
    Family{"bert", Sample::text, make_bert},
};

void check_input(const ModelDescription& model, Sample sample) {
  const bool text = sample == Sample::text;
  if (model.input.size() == (text ? 1 : 3)) return;
  fail(ErrorCode::bad_input,
       "model {} takes {}, but a sample of this data set is [{}]: use another of the two", model.name,
       text ? "text [context]" : "images [channels, height, width]", fmt::join(model.input, ", "));
}

}  // namespace

Layers make_layers(const ModelDescription& description) {
  std::vector<std::string_view> names;
  for (const Family& family : families) {
    if (description.name == family.name) {
      check_input(description, family.sample);
      return family.make(description);
    }
    names.push_back(family.name);
  }
  fail(ErrorCode::bad_input, "there is no model '{}': use one of {}", description.name,
       fmt::join(names, ", "));
}

}  // namespace bitrift::nn
