#include "record/run.h"

#include "core/error.h"

namespace bitrift::record {

Json to_json(const Evaluation& evaluation) {
  Json value = {{"epoch", evaluation.epoch},
                {"step", evaluation.step},
                {"test_loss", number_to_json(evaluation.test_loss)},
                {"test_accuracy", number_to_json(evaluation.test_accuracy)}};
  if (evaluation.test_capped_loss) value["test_capped_loss"] = number_to_json(*evaluation.test_capped_loss);
  if (evaluation.train_loss) value["train_loss"] = number_to_json(*evaluation.train_loss);
  if (evaluation.train_accuracy) value["train_accuracy"] = number_to_json(*evaluation.train_accuracy);
  return value;
}

Evaluation evaluation_from_json(const Json& value) {
  Evaluation evaluation;
  value.at("epoch").get_to(evaluation.epoch);
  value.at("step").get_to(evaluation.step);
  evaluation.test_loss = number_from_json(value.at("test_loss"));
  evaluation.test_accuracy = number_from_json(value.at("test_accuracy"));
  if (value.contains("test_capped_loss"))
    evaluation.test_capped_loss = number_from_json(value["test_capped_loss"]);
  if (value.contains("train_loss")) evaluation.train_loss = number_from_json(value["train_loss"]);
  if (value.contains("train_accuracy")) evaluation.train_accuracy = number_from_json(value["train_accuracy"]);
  return evaluation;
}

Json to_json(const Alarm& alarm) {
  return {{"guard", alarm.guard},
          {"step", alarm.step},
          {"rank", alarm.rank},
          {"tensor", alarm.tensor},
          {"value", number_to_json(alarm.value)},
          {"limit", number_to_json(alarm.limit)}};
}

Alarm alarm_from_json(const Json& value) {
  return {value.at("guard").get<Guard>(),
          value.at("step"),
          value.at("rank"),
          value.at("tensor"),
          number_from_json(value.at("value")),
          number_from_json(value.at("limit"))};
}

std::string describe(const Alarm& alarm) {
  const std::string where = alarm.tensor.empty() ? "" : " in " + alarm.tensor;
  if (alarm.guard == Guard::checksums)
    return fmt::format("guard checksums on rank {}: {} does not match its checksum, or has none", alarm.rank,
                       alarm.tensor);
  if (alarm.guard == Guard::nonfinite)
    return fmt::format("guard nonfinite at step {} on rank {}: {}{}", alarm.step, alarm.rank, alarm.value,
                       where);
  return fmt::format("guard {} at step {} on rank {}: {:.6g}{}, limit {:.6g}", name_of(alarm.guard),
                     alarm.step, alarm.rank, alarm.value, where, alarm.limit);
}

Json to_json(const RunRequest& request) {
  Json value = {{"id", request.id}, {"checkpoint", request.checkpoint}, {"epochs", request.epochs}};
  if (request.order_seed) value["order_seed"] = *request.order_seed;
  if (request.drill) value["drill"] = *request.drill;
  if (request.altered) value["altered"] = *request.altered;
  if (!request.replicas.empty()) value["replicas"] = request.replicas;
  if (request.compare_loaded) value["compare_loaded"] = true;
  if (request.golden) value["golden"] = true;
  if (request.early_end) value["early_end"] = true;
  if (request.propagation) value["propagation"] = to_json(*request.propagation);
  if (!request.faults.empty()) value["faults"] = to_json(request.faults);
  if (request.recovery) value["recovery"] = to_json(*request.recovery);
  if (request.relaunched) value["relaunched"] = to_json(*request.relaunched);
  return value;
}

RunRequest run_request_from_json(const Json& value) {
  RunRequest request;
  value.at("id").get_to(request.id);
  value.at("checkpoint").get_to(request.checkpoint);
  value.at("epochs").get_to(request.epochs);
  if (value.contains("order_seed")) request.order_seed = value["order_seed"].get<std::uint64_t>();
  if (value.contains("drill")) request.drill = value["drill"].get<Drill>();
  if (value.contains("altered")) request.altered = value["altered"].get<std::vector<std::string>>();
  if (value.contains("replicas")) value["replicas"].get_to(request.replicas);
  request.compare_loaded = value.value("compare_loaded", false);
  request.golden = value.value("golden", false);
  request.early_end = value.value("early_end", false);
  if (value.contains("propagation")) request.propagation = propagation_spec_from_json(value["propagation"]);
  if (value.contains("faults")) request.faults = faults_from_json(value["faults"]);
  if (value.contains("recovery")) request.recovery = recovery_spec_from_json(value["recovery"]);
  if (value.contains("relaunched")) request.relaunched = relaunch_from_json(value["relaunched"]);
  return request;
}

Json to_json(const RunResult& result, Times times) {
  Json replicas = Json::array();
  for (const auto& replica : result.replicas) {
    Json evaluations = Json::array();
    for (const auto& evaluation : replica) evaluations.push_back(to_json(evaluation));
    replicas.push_back(std::move(evaluations));
  }
  Json value = {{"id", result.id},
                {"status", result.status},
                {"detail", result.detail},
                {"replicas", std::move(replicas)},
                {"steps", result.steps},
                {"nonfinite_state", result.nonfinite_state},
                {"final_digest", result.final_digest},
                {"replica_digests", result.replica_digests},
                {"changed_tensors", result.changed_tensors},
                {"last_loss", result.last_loss}};
  if (times == Times::with) value["seconds"] = result.seconds;
  if (result.unreached_tensors) value["unreached_tensors"] = *result.unreached_tensors;
  if (result.test_targets) value["test_targets"] = *result.test_targets;
  if (result.nonfinite_step) value["nonfinite_step"] = *result.nonfinite_step;
  if (result.returned_step) value["returned_step"] = *result.returned_step;
  if (result.alarm_count > 0) {
    value["alarm_count"] = result.alarm_count;
    value["alarms"] = Json::array();
    for (const Alarm& alarm : result.alarms) value["alarms"].push_back(to_json(alarm));
  }
  if (result.propagation) {
    value["propagation"] = Json::array();
    for (const StepDrift& drift : *result.propagation) value["propagation"].push_back(to_json(drift));
  }
  for (const Recovery& recovery : result.recoveries) value["recoveries"].push_back(to_json(recovery, times));
  for (const AlteredMessage& altered : result.altered_messages)
    value["altered_messages"].push_back(to_json(altered));
  for (const LinkReport& report : result.failed_links)
    value["failed_links"].push_back(to_json(report, times));
  return value;
}

RunResult run_result_from_json(const Json& value) {
  RunResult result;
  value.at("id").get_to(result.id);
  value.at("status").get_to(result.status);
  value.at("detail").get_to(result.detail);
  for (const auto& replica : value.at("replicas")) {
    auto& evaluations = result.replicas.emplace_back();
    for (const auto& evaluation : replica) evaluations.push_back(evaluation_from_json(evaluation));
  }
  value.at("steps").get_to(result.steps);
  value.at("nonfinite_state").get_to(result.nonfinite_state);
  value.at("final_digest").get_to(result.final_digest);
  value.at("replica_digests").get_to(result.replica_digests);
  value.at("changed_tensors").get_to(result.changed_tensors);
  value.at("last_loss").get_to(result.last_loss);
  result.seconds = value.value("seconds", 0.0);
  if (value.contains("unreached_tensors"))
    result.unreached_tensors = value["unreached_tensors"].get<std::vector<std::string>>();
  if (value.contains("test_targets")) result.test_targets = value["test_targets"].get<std::int64_t>();
  if (value.contains("nonfinite_step")) result.nonfinite_step = value["nonfinite_step"].get<std::int64_t>();
  if (value.contains("returned_step")) result.returned_step = value["returned_step"].get<std::int64_t>();
  result.alarm_count = value.value("alarm_count", std::int64_t{0});
  if (value.contains("alarms")) {
    for (const Json& alarm : value["alarms"]) result.alarms.push_back(alarm_from_json(alarm));
  }
  if (value.contains("propagation")) {
    result.propagation.emplace();
    for (const Json& drift : value["propagation"]) result.propagation->push_back(step_drift_from_json(drift));
  }
  if (value.contains("recoveries")) {
    for (const Json& recovery : value["recoveries"])
      result.recoveries.push_back(recovery_from_json(recovery));
  }
  if (value.contains("altered_messages")) {
    for (const Json& altered : value["altered_messages"])
      result.altered_messages.push_back(altered_message_from_json(altered));
  }
  if (value.contains("failed_links")) {
    for (const Json& report : value["failed_links"])
      result.failed_links.push_back(link_report_from_json(report));
  }
  return result;
}

}  // namespace bitrift::record
