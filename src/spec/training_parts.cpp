#include "spec/training_parts.h"

#include <algorithm>

#include "core/error.h"

namespace bitrift::record {

Part::Part(const Document& document, std::string pointer)
    : document_(document),
      pointer_(std::move(pointer)),
      value_(document.value.at(Json::json_pointer(pointer_))) {}

void Part::refuse(std::initializer_list<const char*> keys, const std::string& owner) const {
  for (const char* key : keys) {
    if (has(key)) fail(ErrorCode::bad_input, "{}: {} has no '{}'; remove the key", where(key), owner, key);
  }
}

void Part::require(std::initializer_list<const char*> keys, const std::string& owner) const {
  for (const char* key : keys) {
    if (!has(key)) fail(ErrorCode::bad_input, "{}: key '{}' is missing; {}", where(), key, owner);
  }
}

std::string Part::where(const std::string& key) const {
  return document_.where(key.empty() ? pointer_ : pointer_ + "/" + key);
}

namespace {

constexpr std::tuple data_keys = {Key{"path", &DataSpec::path},
                                  Key{"resize", &DataSpec::resize},
                                  Key{"crop", &DataSpec::crop},
                                  Key{"channels", &DataSpec::channels},
                                  Key{"crop_padding", &DataSpec::crop_padding},
                                  Key{"mean", &DataSpec::mean},
                                  Key{"std", &DataSpec::std},
                                  Key{"random_crop", &DataSpec::random_crop},
                                  Key{"flip", &DataSpec::flip},
                                  Key{"vocabulary", &DataSpec::vocabulary},
                                  Key{"test_fraction", &DataSpec::test_fraction},
                                  Key{"mask_fraction", &DataSpec::mask_fraction},
                                  Key{"train_samples", &DataSpec::train_samples},
                                  Key{"test_samples", &DataSpec::test_samples}};

bool is_one_of(ModelName name, std::initializer_list<ModelName> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void read_transformer(const Part& part, ModelSpec& model) {
  const std::string name = name_of(model.name);
  part.require({"layers", "heads", "width", "context"}, name + " needs layers, heads, width and context");
  part.refuse({"classes"}, name);
  if (!part.value()["width"].is_number()) {
    fail(ErrorCode::bad_input, "{}: expected the width of the embedding, found {}", part.where("width"),
         part.value()["width"].dump());
  }
  part.take("layers", model.layers);
  part.take("heads", model.heads);
  part.take("width", model.width);
  part.take("context", model.context);
  if (model.width % model.heads != 0) {
    fail(ErrorCode::bad_input, "{}: {} heads cannot share a width of {}; make width a multiple of heads",
         part.where("heads"), model.heads, model.width);
  }
}

void read_llama(const Part& part, ModelSpec& model) {
  part.take("kv_heads", model.kv_heads);
  part.take("feed_forward", model.feed_forward);
  part.take("tied", model.tied);
  if (model.width / model.heads % 2 != 0) {
    fail(ErrorCode::bad_input,
         "{}: rotary positions turn pairs of numbers, but {} heads share a width of {}: each has {}; make "
         "width an even multiple of heads",
         part.where("heads"), model.heads, model.width, model.width / model.heads);
  }
  if (model.kv_heads != 0 && model.heads % model.kv_heads != 0) {
    fail(ErrorCode::bad_input,
         "{}: {} heads cannot share {} heads of keys and values; choose a divisor of {}",
         part.where("kv_heads"), model.heads, model.kv_heads, model.heads);
  }
}

void read_vision(const Part& part, ModelSpec& model) {
  part.refuse({"layers", "heads", "context"}, name_of(model.name));
  if (model.name == ModelName::mlp || model.name == ModelName::lenet)
    part.refuse({"width"}, name_of(model.name));
  if (!part.has("width")) return;
  const Json& width = part.value()["width"];
  if (width != "full" && width != "small") {
    fail(ErrorCode::bad_input, "{}: expected one of: full, small; found {}", part.where("width"),
         width.dump());
  }
  model.small = width == "small";
}

// Whether the set knows its place, or must be given one.
void check_path(const Part& part, DataName name) {
  switch (name) {
    case DataName::digits:
    case DataName::jargon:
      return part.refuse({"path"}, std::string("the shipped data set ") + name_of(name));
    case DataName::idx:
      return part.require({"path"}, "idx needs the folder of its four files");
    case DataName::text:
      return part.require({"path"}, "text needs a file");
    case DataName::folder:
      return part.require({"path", "resize", "crop"}, "folder needs its path, resize and crop");
    case DataName::cifar10:
    case DataName::cifar100:
      return part.require({"path"}, std::string(name_of(name)) + " needs the folder of its .bin files");
    case DataName::mnist:
    case DataName::fashion_mnist:
      return;
  }
}

}  // namespace

ModelSpec read_model(const Part& part) {
  ModelSpec model;
  part.take("name", model.name);
  const std::string owner = name_of(model.name);
  if (model.name == ModelName::mlp) {
    part.require({"hidden"}, "an mlp needs the widths of its hidden layers");
    part.take("hidden", model.hidden);
    part.take("norm", model.norm);
  } else {
    part.refuse({"hidden", "norm"}, owner);
  }
  if (model.is_transformer()) {
    read_transformer(part, model);
  } else {
    read_vision(part, model);
  }
  if (model.name == ModelName::llama) {
    read_llama(part, model);
  } else {
    part.refuse({"kv_heads", "feed_forward", "tied"}, owner);
  }
  if (!is_one_of(model.name, {ModelName::resnet18, ModelName::resnet50})) part.refuse({"stem"}, owner);
  if (model.name != ModelName::googlenet) part.refuse({"auxiliary"}, owner);
  if (!is_one_of(model.name, {ModelName::alexnet, ModelName::vgg16, ModelName::vgg16_bn, ModelName::googlenet,
                              ModelName::gpt, ModelName::bert}))
    part.refuse({"dropout"}, owner);
  part.take("stem", model.stem);
  part.take("auxiliary", model.auxiliary);
  part.take("classes", model.classes);
  if (part.has("dropout")) model.dropout = part.value()["dropout"].get<double>();
  return model;
}

Json to_json(const ModelSpec& model) {
  const ModelSpec usual;
  Json value = {{"name", model.name}};
  if (model.name == ModelName::mlp) {
    value["hidden"] = model.hidden;
    value["norm"] = model.norm;
  }
  put(value, "stem", model.stem, usual.stem);
  put(value, "auxiliary", model.auxiliary, usual.auxiliary);
  put(value, "classes", model.classes, usual.classes);
  put(value, "layers", model.layers, usual.layers);
  put(value, "heads", model.heads, usual.heads);
  put(value, "width", model.width, usual.width);
  put(value, "context", model.context, usual.context);
  put(value, "kv_heads", model.kv_heads, usual.kv_heads);
  put(value, "feed_forward", model.feed_forward, usual.feed_forward);
  put(value, "tied", model.tied, usual.tied);
  if (model.small) value["width"] = "small";
  if (model.dropout) value["dropout"] = *model.dropout;
  return value;
}

DataSpec read_data(const Part& part, const ModelSpec& model) {
  DataSpec data;
  part.take("name", data.name);
  const std::string name = name_of(data.name);
  const bool text = data.name == DataName::text || data.name == DataName::jargon;
  if (text != model.is_transformer()) {
    fail(ErrorCode::bad_input, "{}: model {} learns from {}; {} is {}", part.where("name"),
         name_of(model.name), model.is_transformer() ? "text (text, jargon)" : "images", name,
         text ? "text" : "images");
  }
  check_path(part, data.name);
  if (text) {
    part.refuse({"resize", "channels", "crop_padding", "mean", "std", "flip"}, name);
  } else {
    part.refuse({"vocabulary", "test_fraction"}, name);
  }
  if (data.name == DataName::folder) {
    part.refuse({"crop_padding"}, name);
  } else {
    part.refuse({"crop", "random_crop"}, name);
  }
  if (model.name == ModelName::bert) {
    data.mask_fraction = 0.15;
  } else {
    part.refuse({"mask_fraction"}, std::string("data for model ") + name_of(model.name));
  }
  take_all(part, data_keys, data);
  if (part.has("prefetch")) data.prefetch = part.value()["prefetch"].get<int>();
  if (data.crop > data.resize) {
    fail(ErrorCode::bad_input, "{}: a crop of {} does not fit images resized to {}", part.where("crop"),
         data.crop, data.resize);
  }
  return data;
}

Json to_json(const DataSpec& data) {
  Json value = {{"name", data.name}};
  put_all(value, data_keys, data);
  if (data.prefetch) value["prefetch"] = *data.prefetch;
  return value;
}

}  // namespace bitrift::record
