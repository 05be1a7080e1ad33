#include "analyze/process/process_view.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "analyze/lines.h"
#include "analyze/views/columns.h"
#include "analyze/views/counted_rows.h"
#include "core/error.h"
#include "design/kind/run/process_strata.h"

namespace bitrift::analyze {
namespace {

using record::Json;

// The strata of a campaign in which ranks fail: one a phase, or a storm.
std::vector<record::Stratum> phases_of(const design::CampaignSpec& spec) {
  if (spec.strata.as<design::ProcessStrata>() == nullptr) {
    fail(ErrorCode::bad_input,
         "campaign '{}': this campaign has no process faults; name the phases in which ranks fail under "
         "strata.process of a spec (docs/rank-failure.md)",
         spec.name);
  }
  return spec.strata->strata();
}

ProcessLine process_line(const Line& line, const Order& order, const std::vector<record::Stratum>& phases,
                         double confidence) {
  ProcessLine found;
  found.arm = line.arm;
  bool sized = true;
  for (const Member& member : line.members) {
    if (member.seen != nullptr) found.waiting += member.seen->waiting;
    found.population += member.bits(order);
    sized = sized && member.bits(order) > 0;
    if (member.trials() == 0) {
      const std::string& name = order.names[member.position];
      const auto phase = std::find_if(phases.begin(), phases.end(),
                                      [&](const record::Stratum& one) { return one.name == name; });
      found.unseen.push_back(phase->field);
      continue;
    }
    found.trials += member.trials();
    for (const record::Reason reason : member.seen->outcomes) {
      const RecoveryOutcome outcome = recovery_outcome_of(reason);
      ++found.counts[static_cast<std::size_t>(outcome)];
      if (outcome == RecoveryOutcome::lost) ++found.reasons[reason];
    }
  }
  if (!sized) found.population = 0;
  if (found.trials > 0) {
    found.rates = rates_by(line.members, order, confidence, recovery_outcomes, [](record::Reason reason) {
      return static_cast<std::size_t>(recovery_outcome_of(reason));
    });
  }
  return found;
}

const Line* find_line(const Lines& lines, const std::map<std::string, std::string>& key) {
  const auto& all = lines.all();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Line& line) { return line.key == key; });
  return found == all.end() ? nullptr : &*found;
}

std::string rate_cell(const ProcessLine& line, RecoveryOutcome outcome, IntervalKind kind) {
  if (line.rates.empty()) return "-";
  const Rate& rate = line.rate(outcome);
  const Interval& interval = rate.interval(kind);
  return fmt::format("{} {:.1f} [{:.1f}, {:.1f}]", line.count(outcome), 100 * rate.estimate,
                     100 * interval.low, 100 * interval.high);
}

std::string phase_text(const ProcessLine& line) { return line.phase.value_or("all"); }

std::string outcome_table(const ProcessView& view) {
  std::vector<std::vector<std::string>> lines = {
      {"arm", name_of(view.place), "n", "recovered bitwise %", "within noise %", "degraded %", "lost %"}};
  for (const ProcessLine& line : view.lines) {
    lines.push_back({line.arm, phase_text(line), std::to_string(line.trials)});
    for (std::size_t i = 0; i < recovery_outcomes; ++i)
      lines.back().push_back(rate_cell(line, static_cast<RecoveryOutcome>(i), view.interval));
  }
  return in_columns(lines);
}

// Why trials were lost, and which faults were not tried.
std::string remarks(const ProcessView& view) {
  std::string text;
  std::uint64_t waiting = 0;
  for (const ProcessLine& line : view.lines) {
    if (line.phase) waiting += line.waiting;
    if (line.phase.has_value() != view.storms()) continue;
    std::vector<std::string> reasons;
    for (const auto& [reason, count] : line.reasons)
      reasons.push_back(fmt::format("{} {}", name_of(reason), count));
    const std::string where = view.storms() ? fmt::format("{}, {}", line.arm, *line.phase) : line.arm;
    if (!reasons.empty()) text += fmt::format("Lost in {}: {}\n", where, fmt::join(reasons, ", "));
    if (!line.unseen.empty() && !view.storms()) {
      text += fmt::format(
          "No trial yet in {}: {}; estimates leave these phases out, and intervals count them as anything "
          "from 0 to 100 %\n",
          line.arm, fmt::join(line.unseen, ", "));
    }
  }
  if (waiting > 0)
    text += fmt::format("{} rows are excluded until every earlier draw has finished.\n", waiting);
  return text.empty() ? "" : "\n" + text;
}

constexpr const char* storm_words =
    "every_N: in each step, a rank fails or gets slow with a probability of 1/N. faults: mean of a trial.\n"
    "goodput: the time of a run without failures divided by the trial's; median, and 5th percentile.\n";

const char* process_interval_words(IntervalKind kind) {
  switch (kind) {
    case IntervalKind::wilson:
      return "Wilson, for one look";
    case IntervalKind::clopper_pearson:
      return "Clopper-Pearson, for one look";
    case IntervalKind::anytime:
      break;
  }
  return "valid at every look";
}

Json interval_of(const Interval& interval) {
  return Json::array({record::number_to_json(interval.low), record::number_to_json(interval.high)});
}

Json line_of(const ProcessLine& line, const ProcessView& view) {
  Json counts, rates = Json::object(), reasons = Json::object();
  for (std::size_t i = 0; i < recovery_outcomes; ++i) {
    const auto outcome = static_cast<RecoveryOutcome>(i);
    counts[name_of(outcome)] = line.count(outcome);
    if (line.rates.empty()) continue;
    const Rate& rate = line.rate(outcome);
    rates[name_of(outcome)] = {{"estimate", record::number_to_json(rate.estimate)},
                               {"interval", interval_of(rate.interval(view.interval))},
                               {"kind", name_of(view.interval)},
                               {"confidence", record::number_to_json(view.each_confidence)}};
  }
  for (const auto& [reason, count] : line.reasons) reasons[name_of(reason)] = count;
  return {{"arm", line.arm},
          {"phase", phase_text(line)},
          {"trials", line.trials},
          {"waiting", line.waiting},
          {"population", line.population},
          {"unseen", line.unseen},
          {"counts", counts},
          {"rates", rates},
          {"lost", reasons}};
}

}  // namespace

RecoveryOutcome recovery_outcome_of(record::Reason reason) noexcept {
  switch (record::class_of(reason)) {
    case record::OutcomeClass::masked:
      return reason == record::Reason::bitwise ? RecoveryOutcome::bitwise : RecoveryOutcome::within_noise;
    case record::OutcomeClass::sdc:
      return RecoveryOutcome::degraded;
    case record::OutcomeClass::crash:
      break;
  }
  return RecoveryOutcome::lost;
}

ProcessView process_view(const std::vector<record::TrialRecord>& rows, const design::CampaignSpec& spec,
                         const Trust& trust, const std::vector<record::Round>& rounds,
                         const SummaryOptions& options) {
  const std::vector<record::Stratum> phases = phases_of(spec);
  const Observations seen = observe(rows, spec, trust);
  const Order order = order_of(spec, rounds, seen);
  Where where(options.where, spec);
  const std::vector<Dimension> by_phase = {Dimension::strategy, Dimension::field};
  const std::vector<Dimension> by_arm = {Dimension::strategy};
  const Lines parts(spec, by_phase, where, nullptr, order, seen, rows);
  const Lines totals(spec, by_arm, where, nullptr, order, seen, rows);

  ProcessView view;
  view.campaign = spec.name;
  view.confidence = spec.confidence;
  view.interval = options.interval;
  view.simultaneous = options.simultaneous;
  view.place = spec.strata->pooled() ? RecoveryPlace::phase : RecoveryPlace::storm;
  const std::size_t summed = view.storms() ? 0 : totals.all().size();
  const auto shown = static_cast<double>((parts.all().size() + summed) * recovery_outcomes);
  view.each_confidence = options.simultaneous ? each_of(shown, spec.confidence) : spec.confidence;
  for (const design::Arm& arm : spec.arms) {
    const Line* const total = find_line(totals, {{"arm", arm.name}});
    if (total == nullptr) continue;
    const auto counted = counted_rows(rows, arm.name);
    for (const record::Stratum& stratum : phases) {
      const Line* const line = find_line(parts, {{"arm", arm.name}, {"field", stratum.field}});
      if (line == nullptr) continue;
      view.lines.push_back(process_line(*line, order, phases, view.each_confidence));
      view.lines.back().phase = stratum.field;
      const auto trials = counted.find(stratum.name);
      if (trials == counted.end()) continue;
      const auto recoveries = recovery_lines(trials->second, arm, stratum.field, view.place);
      view.recoveries.insert(view.recoveries.end(), recoveries.begin(), recoveries.end());
      if (view.storms()) view.goodput.push_back(goodput_of(arm.name, stratum.field, trials->second, rows));
    }
    if (!view.storms()) view.lines.push_back(process_line(*total, order, phases, view.each_confidence));
  }
  return view;
}

std::string table(const ProcessView& view) {
  const std::string times = recovery_tables(view.recoveries, view.place);
  std::string text = outcome_table(view) + (times.empty() ? "" : "\n" + times);
  if (const std::string goodput = goodput_table(view.goodput); !goodput.empty()) text += "\n" + goodput;
  text += remarks(view);
  text += fmt::format(
      "\nrecovered bitwise, within noise, degraded: the run continued, and is bitwise, masked otherwise, or "
      "an SDC;\n"
      "lost: a crash. Each: trials, share in %, interval ({}, {:g} %{}).\n",
      process_interval_words(view.interval), 100 * view.confidence, view.simultaneous ? " together" : "");
  text += view.storms() ? storm_words : "all: the phases together, weighted by how many faults each holds.\n";
  if (times.empty()) return text;
  return text +
         "Times: median/95th percentile over the trials that recovered, each the sum over its recoveries.\n"
         "without detect: trials that do not know when the failure began; they have no detect and no total.\n"
         "steps lost, redone: median and maximum; bytes moved: median.\n";
}

Json to_json(const ProcessView& view) {
  Json lines = Json::array();
  for (const ProcessLine& line : view.lines) lines.push_back(line_of(line, view));
  return {{"schema", "bitrift/process/1"},
          {"campaign", view.campaign},
          {"confidence", record::number_to_json(view.confidence)},
          {"interval", name_of(view.interval)},
          {"simultaneous", view.simultaneous},
          {"lines", lines},
          {"recoveries", to_json(view.recoveries)},
          {"goodput", to_json(view.goodput)}};
}

}  // namespace bitrift::analyze
