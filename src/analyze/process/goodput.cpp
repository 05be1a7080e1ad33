#include "analyze/process/goodput.h"

#include "analyze/rates/quantile.h"
#include "analyze/views/columns.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::Json;
using record::TrialRecord;

// The time of a job that was launched again leaves out the start of the next one.
double seconds_of(const TrialRecord& row) {
  double seconds = row.seconds;
  for (const record::Recovery& recovery : row.result->recoveries) {
    if (recovery.kind == record::RecoveryKind::relaunch) seconds += recovery.times.respawn;
  }
  return seconds;
}

}  // namespace

Goodput goodput_of(const std::string& arm, const std::string& storm,
                   const std::vector<const TrialRecord*>& trials, const std::vector<TrialRecord>& rows) {
  Goodput found{arm, storm};
  std::vector<double> undisturbed, shares;
  for (const TrialRecord& row : rows) {
    const bool trains = row.kind == record::TrialKind::control && row.result && row.result->steps > 0;
    if (trains && row.id.arm == arm) undisturbed.push_back(seconds_of(row));
  }
  if (undisturbed.empty()) return found;
  const double golden = quantile(undisturbed, 0.5);
  for (const TrialRecord* row : trials) {
    if (!row->result || row->result->status != record::RunStatus::done || seconds_of(*row) <= 0) continue;
    shares.push_back(golden / seconds_of(*row));
    found.faults += static_cast<double>(row->faults.size());
  }
  found.trials = shares.size();
  if (shares.empty()) return found;
  found.faults /= static_cast<double>(shares.size());
  found.median = quantile(shares, 0.5);
  found.low = quantile(shares, 0.05);
  return found;
}

std::string goodput_table(const std::vector<Goodput>& lines) {
  if (lines.empty()) return "";
  std::vector<std::vector<std::string>> table = {{"arm", "storm", "n", "faults", "goodput %", "worst 5 %"}};
  for (const Goodput& line : lines) {
    table.push_back({line.arm, line.storm, std::to_string(line.trials)});
    for (const std::string& cell :
         {fmt::format("{:.3g}", line.faults), fmt::format("{:.1f}", 100 * line.median),
          fmt::format("{:.1f}", 100 * line.low)})
      table.back().push_back(line.trials > 0 ? cell : "-");
  }
  return in_columns(table);
}

Json to_json(const std::vector<Goodput>& lines) {
  Json list = Json::array();
  for (const Goodput& line : lines) {
    const auto known = [&](double value) { return line.trials > 0 ? Json(value) : Json(); };
    list.push_back({{"arm", line.arm},
                    {"storm", line.storm},
                    {"trials", line.trials},
                    {"faults", {{"mean", known(line.faults)}}},
                    {"goodput", {{"median", known(line.median)}, {"p5", known(line.low)}}}});
  }
  return list;
}

}  // namespace bitrift::analyze
