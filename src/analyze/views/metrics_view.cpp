#include "analyze/views/metrics_view.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::Metric;
using record::TrialKind;
using record::TrialRecord;
using Key = std::map<std::string, std::string>;

void add_metric(std::map<Key, MetricsLine>& lines, const std::vector<TrialRecord>& rows, const Keys& keys,
                Judging judging, const Metric& metric) {
  judging.metrics = {metric};
  std::map<std::string, ArmControls> controls;
  try {
    controls = controls_of(rows, judging);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) throw;
    for (auto& [key, line] : lines) line.outside[metric] = std::nullopt;
    return;
  }
  for (auto& [key, line] : lines) line.outside[metric] = 0;
  for (const TrialRecord& row : rows) {
    if (row.kind != TrialKind::trial) continue;
    const auto outcome = classify(row, controls.at(row.id.arm), judging).outcome_class();
    if (outcome == record::OutcomeClass::sdc)
      ++lines.at(keys.of(row.id.arm, row.id.stratum)).outside[metric].value();
  }
}

// All standard metrics, and the custom ones that golden runs measure.
std::set<Metric> metrics_of(const Trust& trust) {
  std::set<Metric> metrics(std::begin(record::standard_metrics), std::end(record::standard_metrics));
  for (const auto& [arm, controls] : trust.controls) {
    for (Metric& metric : record::metrics_in(controls.golden.front().evaluations.back()))
      metrics.insert(std::move(metric));
  }
  return metrics;
}

}  // namespace

std::vector<MetricsLine> metrics_view(const std::vector<TrialRecord>& rows, const design::CampaignSpec& spec,
                                      const Trust& trust, const std::vector<std::string>& by) {
  const std::vector<Dimension> lines_by = whole_dimensions(by, spec, "--view metrics");
  const Keys keys(spec, lines_by);
  std::map<Key, MetricsLine> lines;
  for (const TrialRecord& row : rows) {
    if (row.kind != TrialKind::trial) continue;
    MetricsLine& line = lines[keys.of(row.id.arm, row.id.stratum)];
    ++line.trials;
    const auto outcome = classify(row, trust.controls.at(row.id.arm), trust.judging).outcome_class();
    if (outcome == record::OutcomeClass::crash) ++line.crashes;
  }
  for (const Metric& metric : metrics_of(trust)) add_metric(lines, rows, keys, trust.judging, metric);
  std::vector<MetricsLine> list;
  for (auto& [key, line] : lines) {
    line.key = key;
    list.push_back(std::move(line));
  }
  return list;
}

std::string metrics_table(const std::vector<MetricsLine>& lines, const std::vector<Dimension>& by) {
  std::vector<std::vector<std::string>> cells(1);
  for (const Dimension dimension : by) cells[0].emplace_back(key_name(dimension));
  const std::size_t names = cells[0].size();
  for (const char* name : {"n", "crash"}) cells[0].emplace_back(name);
  if (!lines.empty()) {
    for (const auto& [metric, count] : lines.front().outside) cells[0].push_back(metric.name());
  }
  for (const MetricsLine& line : lines) {
    std::vector<std::string>& row = cells.emplace_back();
    for (const Dimension dimension : by) row.push_back(line.key.at(key_name(dimension)));
    row.push_back(std::to_string(line.trials));
    row.push_back(std::to_string(line.crashes));
    for (const auto& [metric, count] : line.outside) row.push_back(count ? std::to_string(*count) : "-");
  }
  std::string text;
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::size_t width = 0;
      for (const auto& other : cells) width = std::max(width, other[i].size());
      text += i < names ? fmt::format("{:<{}}  ", row[i], width) : fmt::format("{:>{}}  ", row[i], width);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text +
         "\nTrials that each metric alone would call SDC at the stated level, without weights; -: the rows "
         "do not "
         "have\nit, or it is the same in all clean runs.\n";
}

record::Json to_json(const std::vector<MetricsLine>& lines) {
  record::Json list = record::Json::array();
  for (const MetricsLine& line : lines) {
    record::Json outside = record::Json::object();
    for (const auto& [metric, count] : line.outside)
      outside[metric.name()] = count ? record::Json(*count) : record::Json();
    list.push_back(
        {{"key", line.key}, {"trials", line.trials}, {"crashes", line.crashes}, {"outside", outside}});
  }
  return list;
}

}  // namespace bitrift::analyze
