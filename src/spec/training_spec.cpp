#include "spec/training_spec.h"

#include <algorithm>

#include "core/error.h"
#include "record/json/schema.h"
#include "spec/training_parts.h"

namespace bitrift::record {
namespace {

std::optional<double> read_loss_scale(const Part& part) {
  if (!part.has("loss_scale")) return std::nullopt;
  const Json& value = part.value()["loss_scale"];
  if (value == "dynamic") return 0;
  if (value.is_number()) return value.get<double>();
  fail(ErrorCode::bad_input, "{}: expected a number or \"dynamic\", found {}", part.where("loss_scale"),
       value.dump());
}

}  // namespace

std::string TrainingSpec::pointer_to(std::string key) const {
  std::replace(key.begin(), key.end(), '.', '/');
  return origin_pointer + "/" + key;
}

std::string TrainingSpec::where(const std::string& key) const {
  return origin ? origin->where(pointer_to(key)) : key;
}

bool TrainingSpec::has(const std::string& key) const {
  return origin && origin->places.contains(pointer_to(key));
}

TrainingSpec training_spec_from(const Document& document, const std::string& pointer) {
  const Part part(document, pointer);
  const auto child = [&](const char* key) { return Part(document, pointer + "/" + key); };
  TrainingSpec spec;
  spec.origin = std::make_shared<const Document>(document);
  spec.origin_pointer = pointer;
  spec.model = read_model(child("model"));
  spec.data = read_data(child("data"), spec.model);
  spec.optimizer = read_optimizer(child("optimizer"));
  if (part.has("schedule")) spec.schedule = read_schedule(child("schedule"));
  if (part.has("guards")) spec.guards = read_guards(child("guards"), spec.optimizer);
  part.take("precision", spec.precision);
  spec.loss_scale = read_loss_scale(part);
  part.take("batch_size", spec.batch_size);
  part.take("epochs", spec.epochs);
  if (part.has("resized")) {
    for (const Json& one : part.value()["resized"])
      spec.resized.push_back({one.at("before"), one.at("epoch"), one.at("cursor")});
  }
  part.take("seed", spec.seed);
  part.take("threads", spec.threads);
  if (part.has("checkpoint")) spec.checkpoint = read_checkpoint_policy(child("checkpoint"));
  const std::string place = part.where("parallel");
  if (part.has("parallel")) spec.parallel = parallel_from_json(part.value()["parallel"], place);
  if (part.has("device") && part.has("parallel") && part.value()["parallel"].contains("device") &&
      part.value()["device"] != name_of(spec.parallel.device)) {
    fail(ErrorCode::bad_input, "{}: is {}, but parallel.device is {}; keep one", part.where("device"),
         part.value()["device"].dump(), part.value()["parallel"]["device"].dump());
  }
  part.take("device", spec.parallel.device);
  check_parallel(spec.parallel, spec.batch_size, place);
  return spec;
}

TrainingSpec read_training_spec(const std::filesystem::path& path) {
  const Document document = parse_file(path);
  if (document.value.is_object() && document.value.contains("arms") && !document.value.contains("model")) {
    fail(
        ErrorCode::bad_input,
        "{}: is a campaign spec, but a training spec is needed: run it with `bitrift campaign run {} -o DIR`",
        path.string(), path.string());
  }
  check_schema(document, shipped_schema("train"));
  return training_spec_from(document, "");
}

std::optional<std::int64_t> steps_in_epoch(const TrainingSpec& spec, std::int64_t epoch,
                                           std::int64_t cursor) {
  std::int64_t steps = 0, at = 0;
  for (const Resize& change : spec.resized) {
    if (change.epoch < epoch) continue;
    if (change.epoch > epoch || cursor <= change.cursor) {
      if ((cursor - at) % change.before != 0) return std::nullopt;
      return steps + (cursor - at) / change.before;
    }
    steps += (change.cursor - at) / change.before;
    at = change.cursor;
  }
  if (cursor < at || (cursor - at) % spec.batch_size != 0) return std::nullopt;
  return steps + (cursor - at) / spec.batch_size;
}

std::string to_text(const TrainingSpec& spec) {
  Json value = {
      {"model", to_json(spec.model)},  {"data", to_json(spec.data)}, {"optimizer", to_json(spec.optimizer)},
      {"batch_size", spec.batch_size}, {"epochs", spec.epochs},      {"seed", spec.seed},
      {"threads", spec.threads}};
  if (spec.schedule != ScheduleSpec{}) value["schedule"] = to_json(spec.schedule);
  if (spec.guards != GuardSpec{}) value["guards"] = to_json(spec.guards);
  for (const Resize& one : spec.resized)
    value["resized"].push_back({{"before", one.before}, {"epoch", one.epoch}, {"cursor", one.cursor}});
  if (spec.precision != Precision::fp32) value["precision"] = spec.precision;
  if (spec.loss_scale) value["loss_scale"] = *spec.loss_scale == 0 ? Json("dynamic") : Json(*spec.loss_scale);
  return value.dump();
}

TrainingSpec training_spec_from_text(const std::string& text, const std::string& source) {
  try {
    const Document document = parse_text(text, source);
    check_schema(document, shipped_schema("train"));
    return training_spec_from(document, "");
  } catch (const Error& error) {
    throw Error(ErrorCode::bad_file, error.what());
  }
}

}  // namespace bitrift::record
