#include "analyze/views/study_view.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>

namespace bitrift::analyze {
namespace {

using record::TrialKind;
using record::TrialRecord;
using Cell = std::pair<std::string, std::string>;  // arm, stratum

// The number of draws of each cell before the first gap.
std::map<Cell, std::uint64_t> draws_without_gap(const std::vector<TrialRecord>& rows) {
  std::map<Cell, std::set<std::uint64_t>> seen;
  for (const TrialRecord& row : rows) {
    if (row.kind == TrialKind::trial) seen[{row.id.arm, row.id.stratum}].insert(row.id.draw);
  }
  std::map<Cell, std::uint64_t> draws;
  for (const auto& [cell, drawn] : seen) {
    std::uint64_t next = 0;
    for (const std::uint64_t draw : drawn) next += draw == next ? 1 : 0;
    draws[cell] = next;
  }
  return draws;
}

void count(StudyLine& line, std::vector<double>& accuracies, const TrialRecord& row,
           const ArmControls& controls, const Judging& judging) {
  const std::size_t last = controls.horizon - 1;
  const double golden =
      controls.golden.at(static_cast<std::size_t>(row.order)).evaluations.at(last).test_accuracy.value();
  ++line.trials;
  line.golden += golden;
  const record::Reason reason = classify(row, controls, judging).reason;
  if (reason == record::Reason::nonfinite) {
    ++line.nan;
    return;
  }
  if (record::class_of(reason) == record::OutcomeClass::crash) {
    ++line.other;
    return;
  }
  // A trial that ends bitwise equal needs no metrics to be classified.
  const double accuracy = judged(*row.result, judging.judge).at(last).test_accuracy.value_or(golden);
  accuracies.push_back(accuracy);
  if (accuracy == golden) {
    ++line.unchanged;
  } else if (accuracy < golden - accuracy_drop) {
    ++line.reduced;
  } else {
    ++line.wrong;
  }
}

void finish(StudyLine& line, const std::vector<double>& accuracies) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  const auto n = static_cast<double>(accuracies.size());
  line.golden /= static_cast<double>(line.trials);
  line.mean = line.deviation = line.variation = none;
  if (accuracies.empty()) return;
  double sum = 0;
  for (const double value : accuracies) sum += value;
  line.mean = sum / n;
  if (accuracies.size() < 2) return;
  double squares = 0;
  for (const double value : accuracies) squares += (value - line.mean) * (value - line.mean);
  line.deviation = std::sqrt(squares / (n - 1));
  if (line.mean > 0) line.variation = line.deviation / line.mean;
}

std::string percent(std::uint64_t count, const StudyLine& line) {
  return fmt::format("{:.1f}", 100 * static_cast<double>(count) / static_cast<double>(line.trials));
}

std::string points(double value) { return std::isnan(value) ? "-" : fmt::format("{:.2f}", 100 * value); }

}  // namespace

std::vector<StudyLine> study_view(const std::vector<TrialRecord>& rows, const design::CampaignSpec& spec,
                                  const Trust& trust, const std::vector<std::string>& by) {
  require_accuracy(trust, "classes of --view jpdc2024");
  const std::vector<Dimension> lines_by = whole_dimensions(by, spec, "--view jpdc2024");
  const Keys keys(spec, lines_by);
  const auto counted = draws_without_gap(rows);
  struct Group {
    StudyLine line;
    std::vector<double> accuracies;
  };
  std::map<std::map<std::string, std::string>, Group> groups;
  for (const TrialRecord& row : rows) {
    if (row.kind != TrialKind::trial) continue;
    if (row.id.draw >= counted.at({row.id.arm, row.id.stratum})) continue;
    Group& group = groups[keys.of(row.id.arm, row.id.stratum)];
    count(group.line, group.accuracies, row, trust.controls.at(row.id.arm), trust.judging);
  }
  std::vector<StudyLine> lines;
  for (auto& [key, group] : groups) {
    // Rows end in any order: sums of sorted values do not depend on it.
    std::sort(group.accuracies.begin(), group.accuracies.end());
    finish(group.line, group.accuracies);
    group.line.key = key;
    lines.push_back(std::move(group.line));
  }
  return lines;
}

std::string study_table(const std::vector<StudyLine>& lines, const std::vector<Dimension>& by) {
  std::vector<std::vector<std::string>> cells(1);
  for (const Dimension dimension : by) cells[0].emplace_back(key_name(dimension));
  const std::size_t names = cells[0].size();
  for (const char* name :
       {"n", "RWC %", "NaN %", "AccR %", "TF %", "other %", "golden", "mean", "deviation", "CV"}) {
    cells[0].emplace_back(name);
  }
  for (const StudyLine& line : lines) {
    std::vector<std::string> row;
    row.reserve(cells[0].size());
    for (const Dimension dimension : by) row.push_back(line.key.at(key_name(dimension)));
    row.push_back(std::to_string(line.trials));
    for (const std::uint64_t count : {line.unchanged, line.nan, line.reduced, line.wrong, line.other})
      row.push_back(percent(count, line));
    for (const double value : {line.golden, line.mean, line.deviation}) row.push_back(points(value));
    row.push_back(std::isnan(line.variation) ? "-" : fmt::format("{:.4f}", line.variation));
    cells.push_back(std::move(row));
  }
  std::vector<std::size_t> widths(cells[0].size());
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text +=
          i < names ? fmt::format("{:<{}}  ", row[i], widths[i]) : fmt::format("{:>{}}  ", row[i], widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text +
         "\nRWC: final test accuracy as in the golden run; NaN: a loss or metric was not finite; AccR: more "
         "than 5\n"
         "points below the golden run; TF: any other accuracy; other: exception, signal, hang, rejected.\n"
         "Accuracies in % over trials that have one; CV = deviation / mean.\n";
}

record::Json to_json(const std::vector<StudyLine>& lines) {
  record::Json list = record::Json::array();
  for (const StudyLine& line : lines) {
    list.push_back({{"key", line.key},
                    {"trials", line.trials},
                    {"counts",
                     {{"RWC", line.unchanged},
                      {"NaN", line.nan},
                      {"AccR", line.reduced},
                      {"TF", line.wrong},
                      {"other", line.other}}},
                    {"accuracy",
                     {{"golden", record::number_to_json(line.golden)},
                      {"mean", record::number_to_json(line.mean)},
                      {"deviation", record::number_to_json(line.deviation)},
                      {"cv", record::number_to_json(line.variation)}}}});
  }
  return list;
}

}  // namespace bitrift::analyze
