#include "record/run.h"

#include "core/error.h"

namespace bitrift::record {

namespace {

// All members except the times, and the lists that contain times.
constexpr std::tuple result_keys = {
    Key{"id", &RunResult::id},
    Key{"status", &RunResult::status},
    Key{"detail", &RunResult::detail},
    Key{"replicas", &RunResult::replicas},
    Key{"steps", &RunResult::steps},
    Key{"test_targets", &RunResult::test_targets},
    Key{"nonfinite_step", &RunResult::nonfinite_step},
    Key{"returned_step", &RunResult::returned_step},
    Key{"left_undone", &RunResult::left_undone},
    Key{"nonfinite_state", &RunResult::nonfinite_state},
    Key{"final_digest", &RunResult::final_digest},
    Key{"replica_digests", &RunResult::replica_digests},
    Key{"changed_tensors", &RunResult::changed_tensors},
    Key{"unreached_tensors", &RunResult::unreached_tensors},
    Key{"alarms", &RunResult::alarms, Presence::unless_default},
    Key{"alarm_count", &RunResult::alarm_count, Presence::unless_default},
    Key{"guard_actions", &RunResult::guard_actions, Presence::unless_default},
    Key{"guard_action_count", &RunResult::guard_action_count, Presence::unless_default},
    Key{"last_loss", &RunResult::last_loss},
    Key{"propagation", &RunResult::propagation},
    Key{"altered_messages", &RunResult::altered_messages, Presence::unless_default},
    Key{"altered_values", &RunResult::altered_values, Presence::unless_default}};

}  // namespace

std::string describe(const Alarm& alarm) {
  const std::string where = alarm.tensor.empty() ? "" : " in " + alarm.tensor;
  if (alarm.guard == Guard::checksums)
    return fmt::format("guard checksums on rank {}: {} does not match its checksum, or has none", alarm.rank,
                       alarm.tensor);
  if (alarm.guard == Guard::fingerprints)
    return fmt::format("guard fingerprints at step {} on rank {}: {} has changed since the step before",
                       alarm.step, alarm.rank, alarm.tensor);
  if (alarm.guard == Guard::replicas)
    return fmt::format("guard replicas at step {} on rank {}: its parameters differ from those of {}",
                       alarm.step, alarm.rank, alarm.limit > 0 ? "most replicas" : "other replicas");
  if (alarm.guard == Guard::recompute)
    return fmt::format("guard recompute at step {} on rank {}: the same step gave two results", alarm.step,
                       alarm.rank);
  if (alarm.guard == Guard::nonfinite)
    return fmt::format("guard nonfinite at step {} on rank {}: {}{}", alarm.step, alarm.rank, alarm.value,
                       where);
  return fmt::format("guard {} at step {} on rank {}: {:.6g}{}, limit {:.6g}", name_of(alarm.guard),
                     alarm.step, alarm.rank, alarm.value, where, alarm.limit);
}

std::string describe(const GuardAction& action) {
  if (action.action == OnAlarm::clip) return fmt::format("outputs were clipped in step {}", action.step);
  if (action.action == OnAlarm::reload)
    return fmt::format("before step {} tensors were set back to their values after step {}", action.step,
                       action.to);
  if (action.action == OnAlarm::skip) return fmt::format("step {} was skipped", action.step);
  return fmt::format("after step {} the run went back to the state after step {}", action.step, action.to);
}

Json to_json(const RunResult& result, Times times) {
  Json value = Json::object();
  put_keys(value, result, result_keys);
  if (times == Times::with) value["seconds"] = result.seconds;
  for (const Recovery& recovery : result.recoveries) value["recoveries"].push_back(to_json(recovery, times));
  for (const LinkReport& report : result.failed_links)
    value["failed_links"].push_back(to_json(report, times));
  return value;
}

RunResult run_result_from_json(const Json& value) {
  RunResult result;
  take_keys(value, result, result_keys);
  result.seconds = value.value("seconds", 0.0);
  result.recoveries = value.value("recoveries", result.recoveries);
  if (value.contains("failed_links")) {
    for (const Json& report : value["failed_links"])
      result.failed_links.push_back(link_report_from_json(report));
  }
  return result;
}

}  // namespace bitrift::record
