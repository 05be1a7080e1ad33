#include "study/policy/policy_summary.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

namespace bitrift::study {
namespace {

using record::Json;

using TimedCosts = std::map<std::uint64_t, PolicyCosts>;  // by turn

struct ModeRows {
  std::map<std::int64_t, TimedCosts> costs;              // by interval
  std::map<std::int64_t, std::vector<TimedLife>> lives;  // the same

  /// The measurements for an interval, the last ones before a life of this turn.
  [[nodiscard]] const PolicyCosts& before(std::int64_t interval, std::uint64_t turn) const {
    return std::prev(costs.at(interval).upper_bound(turn))->second;
  }
};

PolicyCosts mean_of(const TimedCosts& all) {
  MeanCosts mean;
  for (const auto& [number, costs] : all) mean.add(costs);
  return mean.value();
}

ModeSummary summarize_mode(const StudySpec& spec, record::SaveMode mode, const ModeRows& rows) {
  const double mean = spec.policy.mean_time_between_failures;
  const PolicyCosts& first = rows.costs.at(0).at(0);
  ModeSummary summary{mode, first, computed_interval(mode, first, mean), {}};
  for (const auto& [interval, lives] : rows.lives) {
    PolicyCell cell{interval, static_cast<double>(interval) * summary.costs.step, lives.size(),
                    measured_useful(lives)};
    cell.confidence = analyze::student_t(cell.measured.fraction, cell.measured.standard_error,
                                         cell.measured.degrees, spec.confidence);
    cell.costs = mean_of(rows.costs.at(interval));
    cell.predicted = predicted_useful(mode, interval, cell.costs, mean);
    cell.predicted_own = predicted_useful(mode, interval, mean_own_costs(lives), mean);
    cell.replayed = replayed_kills(mode, interval, lives);
    const UsefulTime& difference = cell.replayed.difference;
    const double margin =
        analyze::student_t_margin(difference.standard_error, difference.degrees, spec.confidence);
    cell.difference = {std::max(-1.0, difference.fraction - margin),
                       std::min(1.0, difference.fraction + margin)};
    summary.cells.push_back(cell);
  }
  const auto index = [&](auto less) -> std::optional<std::size_t> {
    if (summary.cells.empty()) return std::nullopt;
    return std::min_element(summary.cells.begin(), summary.cells.end(), less) - summary.cells.begin();
  };
  summary.best = index(
      [](const PolicyCell& a, const PolicyCell& b) { return a.measured.fraction > b.measured.fraction; });
  const auto distance = [&](const PolicyCell& cell) {
    return std::abs(std::log(static_cast<double>(cell.interval) / static_cast<double>(summary.computed)));
  };
  summary.nearest =
      index([&](const PolicyCell& a, const PolicyCell& b) { return distance(a) < distance(b); });
  return summary;
}

Json cell_json(const PolicyCell& cell) {
  return {{"interval", cell.interval},
          {"interval_seconds", cell.seconds},
          {"lives", cell.lives},
          {"useful", cell.measured.fraction},
          {"standard_error", cell.measured.standard_error},
          {"student_t", {cell.confidence.low, cell.confidence.high}},
          {"step_seconds", cell.costs.step},
          {"block_seconds", cell.costs.block},
          {"persist_seconds", cell.costs.persist},
          {"restart_seconds", cell.costs.restart},
          {"predicted", cell.predicted},
          {"predicted_own_costs", cell.predicted_own},
          {"replayed", cell.replayed.before},
          {"replayed_own_costs", cell.replayed.own},
          {"difference", cell.replayed.difference.fraction},
          {"difference_student_t", {cell.difference.low, cell.difference.high}}};
}

}  // namespace

std::vector<ModeSummary> summarize_policy(const StudySpec& spec, const std::vector<StudyRow>& rows) {
  std::map<record::SaveMode, ModeRows> modes;
  std::vector<const PolicyResult*> lives;
  for (const StudyRow& row : rows) {
    const auto* policy = std::get_if<PolicyResult>(&row.result);
    if (policy == nullptr) continue;
    if (const auto* costs = std::get_if<PolicyCosts>(&policy->found)) {
      modes[policy->mode].costs[policy->interval][policy->number] = *costs;
    } else {
      lives.push_back(policy);
    }
  }
  for (const PolicyResult* one : lives) {
    ModeRows& mode = modes[one->mode];
    mode.lives[one->interval].push_back(
        {std::get<Life>(one->found), mode.before(one->interval, one->number)});
  }
  std::vector<ModeSummary> summaries;
  summaries.reserve(modes.size());
  for (const auto& [mode, of_mode] : modes) summaries.push_back(summarize_mode(spec, mode, of_mode));
  return summaries;
}

Json policy_json(const std::vector<ModeSummary>& modes) {
  Json list = Json::array();
  for (const ModeSummary& mode : modes) {
    Json value = {{"mode", mode.mode},
                  {"step_seconds", mode.costs.step},
                  {"block_seconds", mode.costs.block},
                  {"persist_seconds", mode.costs.persist},
                  {"restart_seconds", mode.costs.restart},
                  {"computed_interval", mode.computed},
                  {"intervals", Json::array()}};
    for (const PolicyCell& cell : mode.cells) value["intervals"].push_back(cell_json(cell));
    if (mode.best) value["best_interval"] = mode.cells[*mode.best].interval;
    list.push_back(std::move(value));
  }
  return list;
}

std::string policy_table(const StudySpec& spec, const std::vector<ModeSummary>& modes) {
  if (modes.empty()) return "";
  std::string text = fmt::format("{:<6} {:>8} {:>8} {:>6} {:>24} {:>10} {:>10} {:>12} {:>10} {:>21}\n",
                                 "mode", "interval", "seconds", "lives", "useful time", "predicted",
                                 "own costs", "these kills", "own costs", "difference");
  for (const ModeSummary& mode : modes) {
    for (std::size_t i = 0; i < mode.cells.size(); ++i) {
      const PolicyCell& cell = mode.cells[i];
      text += fmt::format(
          "{:<6} {:>8} {:>8.2f} {:>6} {:>24} {:>9.1f}% {:>9.1f}% {:>11.1f}% {:>9.1f}% {:>21}{}{}\n",
          name_of(mode.mode), cell.interval, cell.seconds, cell.lives,
          fmt::format("{:.1f}% [{:.1f}, {:.1f}]", 100 * cell.measured.fraction, 100 * cell.confidence.low,
                      100 * cell.confidence.high),
          100 * cell.predicted, 100 * cell.predicted_own, 100 * cell.replayed.before, 100 * cell.replayed.own,
          fmt::format("{:+.1f} [{:+.1f}, {:+.1f}]", 100 * cell.replayed.difference.fraction,
                      100 * cell.difference.low, 100 * cell.difference.high),
          i == mode.best ? " best" : "", i == mode.nearest ? " computed" : "");
    }
  }
  text += fmt::format(
      "kills at exponential times with a mean of {:g} s; interval: steps, and the seconds that they take;\n"
      "useful: time in steps that are never lost, Student's t at {:g} %; predicted: expected for such "
      "kills;\n"
      "these kills: predicted for the times of these kills; own costs: the column before, with the costs in "
      "these lives;\n"
      "difference: useful - these kills, in percentage points, Student's t of the differences of lives\n",
      spec.policy.mean_time_between_failures, 100 * spec.confidence);
  for (const ModeSummary& mode : modes) {
    text += fmt::format("{}: a step takes {:.3g} s, a save stops it for {:.3g} s", name_of(mode.mode),
                        mode.costs.step, mode.costs.block);
    if (mode.costs.persist > 0) text += fmt::format(" and is on disk {:.3g} s later", mode.costs.persist);
    text += fmt::format(", a restart takes {:.3g} s; computed interval: {} steps\n", mode.costs.restart,
                        mode.computed);
  }
  return text + "\n";
}

}  // namespace bitrift::study
