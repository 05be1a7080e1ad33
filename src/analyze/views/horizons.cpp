#include "analyze/views/horizons.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "analyze/verdict/classify.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;
using record::TrialKind;
using record::TrialRecord;
using Classes = std::map<record::TrialId, OutcomeClass>;

Classes classes_at(const std::vector<const TrialRecord*>& trials,
                   const std::map<std::string, ArmControls>& controls, const Judging& judging) {
  Classes classes;
  for (const TrialRecord* row : trials)
    classes[row->id] = classify(*row, controls.at(row->id.arm), judging).outcome_class();
  return classes;
}

}  // namespace

std::vector<HorizonLine> horizons_of(const std::vector<TrialRecord>& rows, Judging judging) {
  std::vector<const TrialRecord*> trials;
  for (const TrialRecord& row : rows) {
    if (row.kind == TrialKind::trial) trials.push_back(&row);
  }
  judging.horizon.reset();
  const auto whole = controls_of(rows, judging);
  const Classes last = classes_at(trials, whole, judging);
  std::size_t most = 0;
  for (const auto& [arm, controls] : whole) most = std::max(most, controls.horizon);
  std::vector<HorizonLine> lines;
  for (std::size_t horizon = 1; horizon <= most; ++horizon) {
    judging.horizon = horizon;
    const auto controls = controls_of(rows, judging);
    std::map<std::string, HorizonLine> of_arm;
    for (const auto& [arm, of] : controls) {
      of_arm[arm] = {arm, horizon, of.golden.front().evaluations[horizon - 1].step, {}, 0};
      for (const OutcomeClass one : record::outcome_classes) of_arm[arm].counts[one] = 0;
    }
    for (const auto& [id, found] : classes_at(trials, controls, judging)) {
      HorizonLine& line = of_arm.at(id.arm);
      ++line.counts[found];
      if (found != last.at(id)) ++line.moving;
    }
    for (auto& [arm, line] : of_arm) lines.push_back(std::move(line));
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const HorizonLine& a, const HorizonLine& b) { return a.arm < b.arm; });
  return lines;
}

std::string table(const std::vector<HorizonLine>& lines) {
  std::size_t width = 3;
  for (const HorizonLine& line : lines) width = std::max(width, line.arm.size());
  std::string text = fmt::format("{:<{}}  {:>7}  {:>7}  {:>7}  {:>5}  {:>5}  {:>6}\n", "arm", width,
                                 "horizon", "step", "masked", "SDC", "crash", "moving");
  for (const HorizonLine& line : lines) {
    text += fmt::format("{:<{}}  {:>7}  {:>7}  {:>7}  {:>5}  {:>5}  {:>6}\n", line.arm, width, line.horizon,
                        line.step, line.counts.at(OutcomeClass::masked), line.counts.at(OutcomeClass::sdc),
                        line.counts.at(OutcomeClass::crash), line.moving);
  }
  return text +
         "\nTrials as drawn, without weights. horizon: the evaluation after the resume at which they are "
         "judged;\n"
         "moving: trials of another class at the last one. Exceptions, signals and hangs count at every "
         "horizon.\n";
}

record::Json to_json(const std::vector<HorizonLine>& lines) {
  record::Json list = record::Json::array();
  for (const HorizonLine& line : lines) {
    record::Json counts = record::Json::object();
    for (const auto& [outcome, count] : line.counts) counts[name_of(outcome)] = count;
    list.push_back({{"arm", line.arm},
                    {"horizon", line.horizon},
                    {"step", line.step},
                    {"counts", counts},
                    {"moving", line.moving}});
  }
  return list;
}

}  // namespace bitrift::analyze
