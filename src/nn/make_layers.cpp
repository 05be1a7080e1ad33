#include "nn/make_layers.h"

#include "nn/small_models.h"
#include "nn/text/llama.h"
#include "nn/text/transformer.h"
#include "nn/vision/vision_models.h"

namespace bitrift::nn {

Layers make_layers(const ModelDescription& description) {
  switch (description.name) {
    case record::ModelName::mlp:
      return make_mlp(description);
    case record::ModelName::lenet:
      return make_lenet(description);
    case record::ModelName::gpt:
      return make_gpt(description);
    case record::ModelName::bert:
      return make_bert(description);
    case record::ModelName::llama:
      return make_llama(description);
    default:
      return make_vision_model(description);
  }
}

}  // namespace bitrift::nn
