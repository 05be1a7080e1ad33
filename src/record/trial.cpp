#include "record/trial.h"

#include "core/error.h"

namespace bitrift::record {

namespace {

// Reads the times of a list in a result, which are stored next to the result in a row. take: for one item.
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

namespace {

// All but the plane and the measure, which do not apply to some faults, the result and the volatile fields.
constexpr std::tuple row_keys = {Key{"kind", &TrialRecord::kind},
                                 Key{"id", &TrialRecord::id},
                                 Key{"stratum_bits", &TrialRecord::stratum_bits},
                                 Key{"faults", &TrialRecord::faults},
                                 Key{"replicas", &TrialRecord::replicas, Presence::unless_default},
                                 Key{"order", &TrialRecord::order, Presence::unless_default},
                                 Key{"landed", &TrialRecord::landed},
                                 Key{"no_change", &TrialRecord::no_change},
                                 Key{"failure", &TrialRecord::failure}};
constexpr std::tuple volatile_keys = {Key{"started", &TrialRecord::started}, Key{"host", &TrialRecord::host},
                                      Key{"seconds", &TrialRecord::seconds},
                                      Key{"attempts", &TrialRecord::attempts}};

}  // namespace

Json stable_json(const TrialRecord& record) {
  Json value = Json::object();
  put_keys(value, record, row_keys);
  if (record.faults.of_links()) {
    value["plane"] = wire_plane;
  } else if (record.faults.of_computing()) {
    value["plane"] = compute_plane;
  } else if (record.faults.of_bits()) {
    value["measure"] = record.measure;
    value["plane"] = record.plane;
  }
  if (record.result) value["result"] = to_json(*record.result, Times::without);
  return value;
}

Json to_json(const TrialRecord& record) {
  Json value = stable_json(record);
  value["volatile"] = {{"run_seconds", record.result ? record.result->seconds : 0.0}};
  put_keys(value["volatile"], record, volatile_keys);
  if (!record.result) return value;
  for (const Recovery& recovery : record.result->recoveries)
    value["volatile"]["recoveries"].push_back(recovery.times);
  for (const LinkReport& report : record.result->failed_links)
    value["volatile"]["failed_links"].push_back(times_of(report));
  return value;
}

TrialRecord trial_record_from_json(const Json& value) {
  TrialRecord record;
  take_keys(value, record, row_keys);
  if (record.faults.of_bits()) {
    value.at("measure").get_to(record.measure);
    value.at("plane").get_to(record.plane);
  }
  if (value.contains("result")) record.result = run_result_from_json(value["result"]);
  if (record.result.has_value() == record.failure.has_value()) {
    fail(ErrorCode::bad_file, "row {} must hold either a result or a failure", record.id.text());
  }
  const Json& extra = value.at("volatile");
  take_keys(extra, record, volatile_keys);
  if (!record.result) return record;
  extra.at("run_seconds").get_to(record.result->seconds);
  take_all(extra, "recoveries", record.id, record.result->recoveries,
           [](const Json& times, Recovery& recovery) { times.get_to(recovery.times); });
  take_all(extra, "failed_links", record.id, record.result->failed_links,
           [](const Json& times, LinkReport& report) { take_times(times, report); });
  return record;
}

}  // namespace bitrift::record
