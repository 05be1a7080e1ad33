#include "record/training_spec.h"

#include <array>

#include "core/error.h"

namespace bitrift::record {
namespace {

// A key that the chosen name has no use for is a mistake, not a detail.
void refuse_keys(const Document& document, const std::string& pointer, const Json& object,
                 std::initializer_list<const char*> keys, const std::string& owner) {
  for (const char* key : keys) {
    if (object.contains(key)) {
      fail(ErrorCode::bad_input, "{}: {}: {} has no '{}'; remove the key",
           document.place(pointer + "/" + key), key_name(pointer + "/" + key), owner, key);
    }
  }
}

ModelSpec read_model(const Document& document, const std::string& pointer, const Json& value) {
  ModelSpec model;
  model.name = value.at("name");
  if (model.name == "mlp") {
    if (!value.contains("hidden")) {
      fail(ErrorCode::bad_input,
           "{}: {}: key 'hidden' is missing; an mlp needs the widths of its hidden layers",
           document.place(pointer), key_name(pointer));
    }
    model.hidden = value["hidden"].get<std::vector<int>>();
    model.norm = value.value("norm", "none");
  } else {
    refuse_keys(document, pointer, value, {"hidden", "norm"}, model.name);
  }
  return model;
}

DataSpec read_data(const Document& document, const std::string& pointer, const Json& value) {
  DataSpec data{value.at("name"), value.value("path", "")};
  if (data.name == "digits") refuse_keys(document, pointer, value, {"path"}, "the shipped data set digits");
  if (data.name == "idx" && data.path.empty()) {
    fail(ErrorCode::bad_input, "{}: {}: key 'path' is missing; idx needs the folder of its four files",
         document.place(pointer), key_name(pointer));
  }
  return data;
}

OptimizerSpec read_optimizer(const Document& document, const std::string& pointer, const Json& value) {
  OptimizerSpec optimizer;
  optimizer.name = value.at("name");
  optimizer.learning_rate = value.at("learning_rate");
  if (optimizer.name == "sgd") {
    refuse_keys(document, pointer, value, {"beta1", "beta2", "epsilon"}, "sgd");
    optimizer.momentum = value.value("momentum", 0.0);
    optimizer.weight_decay = value.value("weight_decay", 0.0);
  } else {
    refuse_keys(document, pointer, value, {"momentum", "weight_decay"}, "adam");
    optimizer.beta1 = value.value("beta1", optimizer.beta1);
    optimizer.beta2 = value.value("beta2", optimizer.beta2);
    optimizer.epsilon = value.value("epsilon", optimizer.epsilon);
  }
  return optimizer;
}

Json optimizer_json(const OptimizerSpec& optimizer) {
  Json value = {{"name", optimizer.name}, {"learning_rate", optimizer.learning_rate}};
  if (optimizer.name == "sgd") {
    value["momentum"] = optimizer.momentum;
    value["weight_decay"] = optimizer.weight_decay;
  } else {
    value["beta1"] = optimizer.beta1;
    value["beta2"] = optimizer.beta2;
    value["epsilon"] = optimizer.epsilon;
  }
  return value;
}

}  // namespace

Json to_json(const Parallel& parallel) {
  return {{"kind", parallel.kind}, {"ranks", parallel.ranks}, {"micro_batches", parallel.micro_batches}};
}

Parallel parallel_from_json(const Json& value) {
  Parallel parallel;
  parallel.kind = value.at("kind");
  parallel.ranks = value.value("ranks", parallel.ranks);
  parallel.micro_batches = value.value("micro_batches", parallel.micro_batches);
  return parallel;
}

void check_parallel(const Parallel& parallel, int batch_size, const std::string& where) {
  if (parallel.kind != "serial" && parallel.kind != "data" && parallel.kind != "pipeline") {
    fail(ErrorCode::bad_input, "{}: '{}' is no strategy; expected serial, data or pipeline", where,
         parallel.kind);
  }
  if (parallel.ranks < 1 || parallel.micro_batches < 1) {
    fail(ErrorCode::bad_input, "{}: ranks and micro_batches must be at least 1", where);
  }
  if (parallel.kind == "serial" && parallel.ranks != 1) {
    fail(ErrorCode::bad_input, "{}: serial runs on 1 rank, not on {}; choose data or pipeline", where,
         parallel.ranks);
  }
  const std::int64_t replicas = parallel.kind == "data" ? parallel.ranks : 1;
  const std::int64_t parts = replicas * parallel.micro_batches;
  if (batch_size % parts != 0) {
    fail(ErrorCode::bad_input,
         "{}: a batch of {} cannot be split evenly over {} replica(s) x {} micro-batch(es); make batch_size "
         "a multiple of {}",
         where, batch_size, replicas, parallel.micro_batches, parts);
  }
}

TrainingSpec training_spec_from(const Document& document, const std::string& pointer) {
  const Json& value = document.value.at(Json::json_pointer(pointer));
  TrainingSpec spec;
  spec.model = read_model(document, pointer + "/model", value.at("model"));
  spec.data = read_data(document, pointer + "/data", value.at("data"));
  spec.optimizer = read_optimizer(document, pointer + "/optimizer", value.at("optimizer"));
  spec.batch_size = value.at("batch_size");
  spec.epochs = value.at("epochs");
  spec.seed = value.at("seed");
  spec.threads = value.value("threads", 1);
  if (value.contains("parallel")) spec.parallel = parallel_from_json(value["parallel"]);
  const std::string parallel = pointer + "/parallel";
  check_parallel(spec.parallel, spec.batch_size, document.place(parallel) + ": " + key_name(parallel));
  return spec;
}

TrainingSpec read_training_spec(const std::filesystem::path& path) {
  const Document document = parse_file(path);
  check_schema(document, shipped_schema("train"));
  return training_spec_from(document, "");
}

std::string to_text(const TrainingSpec& spec) {
  Json model = {{"name", spec.model.name}};
  if (spec.model.name == "mlp") {
    model["hidden"] = spec.model.hidden;
    model["norm"] = spec.model.norm;
  }
  Json data = {{"name", spec.data.name}};
  if (!spec.data.path.empty()) data["path"] = spec.data.path;
  return Json{{"model", model},
              {"data", data},
              {"optimizer", optimizer_json(spec.optimizer)},
              {"batch_size", spec.batch_size},
              {"epochs", spec.epochs},
              {"seed", spec.seed},
              {"threads", spec.threads}}
      .dump();
}

TrainingSpec training_spec_from_text(const std::string& text) {
  try {
    const Document document = parse_text(text, "the checkpoint's attribute 'spec'");
    check_schema(document, shipped_schema("train"));
    return training_spec_from(document, "");
  } catch (const Error& error) {
    throw Error(ErrorCode::bad_file, error.what());
  }
}

}  // namespace bitrift::record
