#include "analyze/views/recovery_times.h"

#include <cmath>
#include <map>
#include <set>

#include "analyze/rates/quantile.h"
#include "analyze/views/columns.h"
#include "core/byte_size.h"

namespace bitrift::analyze {
namespace {

using record::Json;
using record::Recovery;
using record::TrialRecord;

// What one trial adds: the sums over its recoveries.
struct RecoveryCost {
  std::array<std::optional<double>, recovery_parts> seconds;
  double steps_lost = 0, steps_redone = 0, bytes_moved = 0;
};

std::optional<double> seconds_of(const record::RecoveryTimes& times, RecoveryPart part) {
  switch (part) {
    case RecoveryPart::detect:
      return times.detect;
    case RecoveryPart::revoke:
      return times.revoke;
    case RecoveryPart::agree:
      return times.agree;
    case RecoveryPart::shrink:
      return times.shrink;
    case RecoveryPart::respawn:
      return times.respawn;
    case RecoveryPart::state:
      return times.state;
    case RecoveryPart::redo:
      return times.redo;
    case RecoveryPart::total:
      break;
  }
  // Without its first part, the sum is not a total.
  return times.detect ? std::optional(times.total()) : std::nullopt;
}

RecoveryCost cost_of(const std::vector<Recovery>& recoveries) {
  RecoveryCost cost;
  cost.seconds.fill(0.0);
  for (const Recovery& recovery : recoveries) {
    for (std::size_t i = 0; i < recovery_parts; ++i) {
      const auto seconds = seconds_of(recovery.times, static_cast<RecoveryPart>(i));
      std::optional<double>& sum = cost.seconds[i];
      sum = sum && seconds ? std::optional(*sum + *seconds) : std::nullopt;
    }
    cost.steps_lost += static_cast<double>(recovery.steps_lost);
    cost.steps_redone += static_cast<double>(recovery.steps_redone);
    cost.bytes_moved += static_cast<double>(recovery.bytes_moved);
  }
  return cost;
}

VictimClass victims_of(const TrialRecord& row, int stages) {
  std::set<int> held;
  VictimClass victims;
  for (const record::ProcessFault& fault : row.faults.processes()) {
    if (fault.rank == 0) victims.victim = Victim::rank_0;
    held.insert(fault.rank % stages);
  }
  if (stages > 1 && held.size() == 1) victims.stage = *held.begin();
  return victims;
}

bool recovered(const TrialRecord& row) {
  return row.result && row.result->status == record::RunStatus::done && !row.result->recoveries.empty();
}

/// value(cost): a number, or std::nullopt where the trial does not have it.
template <typename Value>
Spread spread_over(const std::vector<RecoveryCost>& costs, const Value& value) {
  std::vector<double> values;
  for (const RecoveryCost& cost : costs) {
    if (const std::optional<double> one = value(cost)) values.push_back(*one);
  }
  if (values.empty()) return {};
  return {values.size(), quantile(values, 0.5), quantile(values, 0.95), quantile(values, 1)};
}

RecoveryLine line_over(const std::vector<RecoveryCost>& costs) {
  RecoveryLine line;
  line.trials = costs.size();
  for (std::size_t i = 0; i < recovery_parts; ++i) {
    line.milliseconds[i] = spread_over(costs, [i](const RecoveryCost& cost) {
      return cost.seconds[i] ? std::optional(1000 * *cost.seconds[i]) : std::nullopt;
    });
  }
  line.steps_lost =
      spread_over(costs, [](const RecoveryCost& cost) { return std::optional(cost.steps_lost); });
  line.steps_redone =
      spread_over(costs, [](const RecoveryCost& cost) { return std::optional(cost.steps_redone); });
  line.bytes_moved =
      spread_over(costs, [](const RecoveryCost& cost) { return std::optional(cost.bytes_moved); });
  return line;
}

std::string victims_text(const VictimClass& victims) {
  const std::string who = name_of(victims.victim);
  return victims.stage ? fmt::format("{}, stage {}", who, *victims.stage) : who;
}

std::string milliseconds_text(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::vector<std::string> first_cells(const RecoveryLine& line) {
  return {line.arm, line.phase, victims_text(line.victims), std::to_string(line.trials)};
}

}  // namespace

std::vector<RecoveryLine> recovery_lines(const std::vector<const TrialRecord*>& rows, const design::Arm& arm,
                                         const std::string& field, RecoveryPlace place) {
  std::map<VictimClass, std::vector<RecoveryCost>> costs;
  for (const TrialRecord* row : rows) {
    if (!recovered(*row)) continue;
    const VictimClass victims =
        place == RecoveryPlace::phase ? victims_of(*row, arm.parallel.stages) : VictimClass{Victim::any};
    costs[victims].push_back(cost_of(row->result->recoveries));
  }
  std::vector<RecoveryLine> lines;
  for (const auto& [victims, trials] : costs) {
    lines.push_back(line_over(trials));
    lines.back().arm = arm.name;
    lines.back().phase = field;
    lines.back().victims = victims;
  }
  return lines;
}

std::string recovery_tables(const std::vector<RecoveryLine>& lines, RecoveryPlace place) {
  if (lines.empty()) return "";
  std::vector<std::vector<std::string>> times = {{"arm", name_of(place), "victim", "n"}};
  auto costs = times;
  for (const char* part : names_of(RecoveryPart{}).words) times.front().push_back(std::string(part) + " ms");
  for (const char* head : {"steps lost", "most", "redone", "most", "bytes moved", "without detect"})
    costs.front().emplace_back(head);
  for (const RecoveryLine& line : lines) {
    times.push_back(first_cells(line));
    for (const Spread& part : line.milliseconds) {
      times.back().push_back(
          part.n == 0 ? "-" : milliseconds_text(part.median) + "/" + milliseconds_text(part.p95));
    }
    costs.push_back(first_cells(line));
    for (const double value :
         {line.steps_lost.median, line.steps_lost.most, line.steps_redone.median, line.steps_redone.most})
      costs.back().push_back(fmt::format("{:g}", value));
    costs.back().push_back(byte_size_text(static_cast<std::uint64_t>(std::llround(line.bytes_moved.median))));
    costs.back().push_back(std::to_string(line.trials - line.part(RecoveryPart::detect).n));
  }
  return in_columns(times) + "\n" + in_columns(costs);
}

Json to_json(const std::vector<RecoveryLine>& lines) {
  Json list = Json::array();
  for (const RecoveryLine& line : lines) {
    Json value = {{"arm", line.arm},
                  {"phase", line.phase},
                  {"victim", name_of(line.victims.victim)},
                  {"stage", line.victims.stage ? Json(*line.victims.stage) : Json()},
                  {"trials", line.trials}};
    for (std::size_t i = 0; i < recovery_parts; ++i) {
      const Spread& part = line.milliseconds[i];
      value[name_of(static_cast<RecoveryPart>(i))] = {{"n", part.n},
                                                      {"median_ms", part.n > 0 ? Json(part.median) : Json()},
                                                      {"p95_ms", part.n > 0 ? Json(part.p95) : Json()}};
    }
    value["steps_lost"] = {{"median", line.steps_lost.median}, {"max", line.steps_lost.most}};
    value["steps_redone"] = {{"median", line.steps_redone.median}, {"max", line.steps_redone.most}};
    value["bytes_moved"] = {{"median", line.bytes_moved.median}};
    list.push_back(std::move(value));
  }
  return list;
}

}  // namespace bitrift::analyze
