#include "record/trial.h"

#include "core/error.h"

namespace bitrift::record {

Json to_json(const Failure& failure) {
  return {{"reason", failure.reason}, {"detail", failure.detail}, {"signal", failure.signal}};
}

Failure failure_from_json(const Json& value) {
  Failure failure;
  value.at("reason").get_to(failure.reason);
  value.at("detail").get_to(failure.detail);
  value.at("signal").get_to(failure.signal);
  return failure;
}

namespace {

// The times of a list in a result, which stand beside the result in a row. take: of one item.
template <typename Item, typename Take>
void take_all(const Json& extra, const char* list, const TrialId& id, std::vector<Item>& items, Take take) {
  if (!extra.contains(list)) return;
  const Json& times = extra.at(list);
  if (times.size() != items.size())
    fail(ErrorCode::bad_file, "row {}: {} times of {} {}", id.text(), times.size(), items.size(), list);
  for (std::size_t i = 0; i < items.size(); ++i) take(times[i], items[i]);
}

}  // namespace

std::string TrialId::text() const { return fmt::format("{}/{}/{}", arm, stratum, draw); }

Json stable_json(const TrialRecord& record) {
  Json value = {{"kind", name_of(record.kind)},
                {"id", {{"arm", record.id.arm}, {"stratum", record.id.stratum}, {"draw", record.id.draw}}},
                {"stratum_bits", record.stratum_bits},
                {"faults", to_json(record.faults)},
                {"landed", record.landed},
                {"no_change", record.no_change}};
  if (record.faults.of_links()) {
    value["plane"] = wire_plane;
  } else if (record.faults.of_bits()) {
    value["measure"] = record.measure;
    value["plane"] = record.plane;
  }
  if (!record.replicas.empty()) value["replicas"] = record.replicas;
  if (record.order != 0) value["order"] = record.order;
  if (record.result) value["result"] = to_json(*record.result, Times::without);
  if (record.failure) value["failure"] = to_json(*record.failure);
  return value;
}

Json to_json(const TrialRecord& record) {
  Json value = stable_json(record);
  value["volatile"] = {{"started", record.started},
                       {"host", record.host},
                       {"seconds", record.seconds},
                       {"run_seconds", record.result ? record.result->seconds : 0.0},
                       {"attempts", record.attempts}};
  if (!record.result) return value;
  for (const Recovery& recovery : record.result->recoveries)
    value["volatile"]["recoveries"].push_back(to_json(recovery.times));
  for (const LinkReport& report : record.result->failed_links)
    value["volatile"]["failed_links"].push_back(times_of(report));
  return value;
}

TrialRecord trial_record_from_json(const Json& value) {
  TrialRecord record;
  record.kind = parse_named<TrialKind>(value.at("kind").get_ref<const std::string&>());
  const Json& id = value.at("id");
  record.id = {id.at("arm").get<std::string>(), id.at("stratum").get<std::string>(),
               id.at("draw").get<std::uint64_t>()};
  value.at("stratum_bits").get_to(record.stratum_bits);
  record.faults = faults_from_json(value.at("faults"));
  if (record.faults.of_bits()) {
    value.at("measure").get_to(record.measure);
    value.at("plane").get_to(record.plane);
  }
  if (value.contains("replicas")) value["replicas"].get_to(record.replicas);
  record.order = value.value("order", 0);
  value.at("landed").get_to(record.landed);
  value.at("no_change").get_to(record.no_change);
  if (value.contains("result")) record.result = run_result_from_json(value["result"]);
  if (value.contains("failure")) record.failure = failure_from_json(value["failure"]);
  if (record.result.has_value() == record.failure.has_value()) {
    fail(ErrorCode::bad_file, "row {} must hold either a result or a failure", record.id.text());
  }
  const Json& extra = value.at("volatile");
  extra.at("started").get_to(record.started);
  extra.at("host").get_to(record.host);
  extra.at("seconds").get_to(record.seconds);
  extra.at("attempts").get_to(record.attempts);
  if (!record.result) return record;
  extra.at("run_seconds").get_to(record.result->seconds);
  take_all(extra, "recoveries", record.id, record.result->recoveries,
           [](const Json& times, Recovery& recovery) { recovery.times = recovery_times_from_json(times); });
  take_all(extra, "failed_links", record.id, record.result->failed_links,
           [](const Json& times, LinkReport& report) { take_times(times, report); });
  return record;
}

}  // namespace bitrift::record
