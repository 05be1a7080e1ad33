#include "analyze/guards/detectors_view.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "analyze/guards/guard_actions.h"
#include "analyze/verdict/classify.h"
#include "analyze/views/columns.h"
#include "analyze/views/counted_rows.h"
#include "core/error.h"
#include "core/number/median.h"
#include "record/stratum_name.h"

namespace bitrift::analyze {
namespace {

using record::Json;
using record::OutcomeClass;
using record::TrialRecord;

// The arm without guards that runs the same faults in the same way.
const design::Arm* beside(const design::CampaignSpec& spec, const design::Arm& arm) {
  const auto found = std::find_if(spec.arms.begin(), spec.arms.end(), [&](const design::Arm& other) {
    return !spec.guards_of(other).any() && other.file == arm.file && other.parallel == arm.parallel &&
           record::to_json(other.scope) == record::to_json(arm.scope);
  });
  return found == spec.arms.end() ? nullptr : &*found;
}

bool alarmed(const TrialRecord& row) { return row.result && row.result->alarm_count > 0; }

bool rejected(const TrialRecord& row) {
  return row.result && row.result->status == record::RunStatus::rejected;
}

// Guards change nothing else in a run, with one exception: a guard that stops a run while it loads its file
// leaves no alarm in the row.
bool noticed(const TrialRecord& with, const TrialRecord& without) {
  return alarmed(with) || (rejected(with) && !rejected(without));
}

std::optional<double> step_seconds(const std::vector<const TrialRecord*>& clean) {
  std::vector<double> seconds;
  for (const TrialRecord* row : clean) {
    if (row->result->steps > 0)
      seconds.push_back(row->result->seconds / static_cast<double>(row->result->steps));
  }
  if (seconds.empty()) return std::nullopt;
  return median(seconds);
}

void add_intervals(AlarmsByOutcome& outcomes, double confidence) {
  for (auto& [outcome, share] : outcomes) share.close(confidence);
}

// The steps of the run before the one in which its fault strikes. What a file holds is there from the start.
std::int64_t steps_before_strike(const TrialRecord& row) {
  return row.faults.of_computing() && !row.faults.computed().empty() ? row.faults.computed().front().step - 1
                                                                     : 0;
}

using Trials = std::vector<const TrialRecord*>;

// Draw by draw: the outcome without the guard, and whether the guard noticed.
void add_trials(Detector& detector, const std::vector<TrialRecord>& rows, const design::CampaignSpec& spec,
                const Trust& trust, std::optional<std::int64_t> resumed) {
  const ArmControls& controls = trust.controls.at(detector.beside);
  auto plain = counted_rows(rows, detector.beside);
  auto guarded = counted_rows(rows, detector.arm);
  std::vector<double> steps;
  for (const record::Stratum& stratum : spec.strata->strata()) {
    const Trials& without = plain[stratum.name];
    const Trials& with = guarded[stratum.name];
    for (std::size_t draw = 0; draw < std::min(without.size(), with.size()); ++draw) {
      const OutcomeClass outcome = classify(*without[draw], controls, trust.judging).outcome_class();
      const bool alarm = noticed(*with[draw], *without[draw]);
      detector.all[outcome].add(alarm);
      detector.fields[stratum.field][outcome].add(alarm);
      detector.roles[stratum.role][outcome].add(alarm);
      if (!alarm || outcome == OutcomeClass::masked || !resumed) continue;
      const auto& alarms = with[draw]->result->alarms;
      const std::int64_t at = alarms.empty() ? 0 : alarms.front().step;  // 0: the load
      steps.push_back(
          static_cast<double>(std::max<std::int64_t>(0, at - *resumed - steps_before_strike(*with[draw]))));
    }
  }
  if (steps.empty()) return;
  detector.most_steps = *std::max_element(steps.begin(), steps.end());
  detector.median_steps = median(steps);
}

Detector detector_of(const std::vector<TrialRecord>& rows, const design::CampaignSpec& spec,
                     const Trust& trust, const design::Arm& arm, const design::Arm& plain,
                     const std::map<std::string, std::int64_t>& resumed) {
  Detector detector;
  detector.arm = arm.name;
  detector.beside = plain.name;
  detector.guards = spec.guards_of(arm);
  if (detector.guards.act()) detector.actions = guard_actions_of(rows, spec, trust, arm.name, plain.name);
  for (const OutcomeClass outcome : record::outcome_classes) detector.all[outcome];
  const auto from = resumed.find(arm.name);
  add_trials(detector, rows, spec, trust, from == resumed.end() ? std::nullopt : std::optional(from->second));
  add_intervals(detector.all, spec.confidence);
  for (auto& [field, outcomes] : detector.fields) add_intervals(outcomes, spec.confidence);
  for (auto& [role, outcomes] : detector.roles) add_intervals(outcomes, spec.confidence);
  const auto clean = clean_rows(rows, arm.name);
  for (const TrialRecord* row : clean) detector.clean.add(alarmed(*row));
  detector.clean.close(spec.confidence);
  detector.step_seconds = step_seconds(clean);
  const auto unguarded = step_seconds(clean_rows(rows, plain.name));
  if (detector.step_seconds && unguarded && *unguarded > 0)
    detector.cost = *detector.step_seconds / *unguarded;
  return detector;
}

std::string number_or_dash(const std::optional<double>& value, const char* unit = "") {
  return value ? fmt::format("{:.3g}{}", *value, unit) : "-";
}

using TextTable = std::vector<std::vector<std::string>>;

std::vector<std::string> outcome_cells(const AlarmsByOutcome& outcomes) {
  std::vector<std::string> cells;
  for (const OutcomeClass outcome : {OutcomeClass::sdc, OutcomeClass::crash, OutcomeClass::masked}) {
    const auto found = outcomes.find(outcome);
    cells.push_back(found == outcomes.end() ? "none" : text_of(found->second));
  }
  return cells;
}

// A line for each field or role.
void add_parts(TextTable& lines, const std::string& arm,
               const std::map<std::string, AlarmsByOutcome>& parts) {
  for (const auto& [part, outcomes] : parts) {
    lines.push_back({arm, part});
    for (std::string& cell : outcome_cells(outcomes)) lines.back().push_back(std::move(cell));
  }
}

Json to_json(const AlarmsByOutcome& outcomes) {
  Json value = Json::object();
  for (const auto& [outcome, share] : outcomes) value[name_of(outcome)] = to_json(share, "alarms");
  return value;
}

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

Scoreboard scoreboard_of(const std::vector<TrialRecord>& rows, const design::CampaignSpec& spec,
                         const Trust& trust, const std::map<std::string, std::int64_t>& resumed) {
  Scoreboard board{spec.name, spec.confidence, {}, {}};
  for (const design::Arm& arm : spec.arms) {
    if (!spec.guards_of(arm).any()) continue;
    const design::Arm* plain = beside(spec, arm);
    if (plain == nullptr || !trust.controls.contains(plain->name)) {
      board.unpaired.push_back(arm.name);
    } else {
      board.detectors.push_back(detector_of(rows, spec, trust, arm, *plain, resumed));
    }
  }
  if (board.detectors.empty()) {
    fail(ErrorCode::bad_input, "campaign '{}' has no arm with guards beside one without: {}", spec.name,
         board.unpaired.empty() ? "add arms with `guards` (docs/detectors.md)"
                                : "add an arm without guards that has the strategy, scope and precision of " +
                                      board.unpaired.front());
  }
  return board;
}

std::string table(const Scoreboard& board) {
  const std::vector<std::string> outcomes = {"recall SDC %", "recall crash %", "alarms on masked %"};
  TextTable lines = {{"detector"}};
  TextTable fields = {{"detector", "field"}}, roles = {{"detector", "role"}};
  for (TextTable* header : {&lines, &fields, &roles})
    header->front().insert(header->front().end(), outcomes.begin(), outcomes.end());
  for (const char* name : {"false alarms %", "steps", "most", "cost"}) lines.front().emplace_back(name);
  for (const Detector& one : board.detectors) {
    lines.push_back({one.arm});
    for (std::string& cell : outcome_cells(one.all)) lines.back().push_back(std::move(cell));
    for (const std::string& cell : {text_of(one.clean), number_or_dash(one.median_steps),
                                    number_or_dash(one.most_steps), number_or_dash(one.cost, "x")})
      lines.back().push_back(cell);
    add_parts(fields, one.arm, one.fields);
    if (one.roles.size() > 1) add_parts(roles, one.arm, one.roles);
  }
  std::set<std::string> plain;
  for (const Detector& one : board.detectors) plain.insert(one.beside);
  std::string text = in_columns(lines) + "\n" + in_columns(fields);
  if (roles.size() > 1) text += "\n" + in_columns(roles);
  std::vector<std::pair<std::string, GuardActions>> acting;
  for (const Detector& one : board.detectors) {
    if (one.actions)
      acting.emplace_back(fmt::format("{} ({})", one.arm, name_of(one.guards.on_alarm)), *one.actions);
  }
  if (!acting.empty()) text += "\n" + in_columns(lines_of(acting));
  if (const TextTable by_role = role_lines_of(acting); roles.size() > 1 && by_role.size() > 1)
    text += "\n" + in_columns(by_role);
  text += fmt::format(
      "\nrecall: of the faults with this outcome in the arm without guards ({}), how many raise an alarm;\n"
      "counts of this fault list. false alarms: clean runs with an alarm. Intervals: Clopper-Pearson,\n"
      "{:g} %, for one look.\n"
      "steps, most: median and maximum of the steps from the resume, or from the step in which a number is\n"
      "struck, to the first alarm on an SDC or crash.\n"
      "cost: seconds per step over those of the arm without guards, medians of clean runs, on this "
      "machine.\n",
      fmt::join(plain, ", "), 100 * board.confidence);
  if (!acting.empty()) {
    text +=
        "recovered, harmed: judged by the limits of the arm without guards. exactly: with the test\n"
        "metrics of its golden run.\n";
  }
  for (const std::string& arm : board.unpaired)
    text += fmt::format("{}: left out: no arm without guards has its strategy, scope and precision\n", arm);
  return text;
}

Json to_json(const Scoreboard& board) {
  Json detectors = Json::array();
  for (const Detector& one : board.detectors) {
    Json fields = Json::object();
    for (const auto& [field, outcomes] : one.fields) fields[field] = to_json(outcomes);
    Json roles = Json::object();
    for (const auto& [role, outcomes] : one.roles) roles[role] = to_json(outcomes);
    detectors.push_back({{"arm", one.arm},
                         {"beside", one.beside},
                         {"guards", record::to_json(one.guards)},
                         {"outcomes", to_json(one.all)},
                         {"fields", fields},
                         {"roles", roles},
                         {"clean", to_json(one.clean, "alarms")},
                         {"median_steps", number_or_null(one.median_steps)},
                         {"most_steps", number_or_null(one.most_steps)},
                         {"step_seconds", number_or_null(one.step_seconds)},
                         {"cost", number_or_null(one.cost)}});
    if (one.actions) detectors.back()["actions"] = to_json(*one.actions);
  }
  return {{"schema", "bitrift/detectors/1"},
          {"campaign", board.campaign},
          {"confidence", board.confidence},
          {"detectors", detectors},
          {"unpaired", board.unpaired}};
}

}  // namespace bitrift::analyze
