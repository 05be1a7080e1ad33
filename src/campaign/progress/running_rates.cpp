#include "campaign/progress/running_rates.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/ranges.h>

#include "analyze/group_rates.h"
#include "core/error.h"

namespace bitrift::campaign {
namespace {

using record::OutcomeClass;

constexpr std::size_t most_lines = 8;

// A line is recomputed when its number of trials has grown by this fraction (one part in ...).
constexpr std::uint64_t growth = 50;

std::string listed(const std::vector<std::string>& names) {
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), most_lines));
  const std::string text = fmt::format("{}", fmt::join(names.begin(), end, ", "));
  return names.size() <= most_lines ? text : fmt::format("{} and {} more", text, names.size() - most_lines);
}

}  // namespace

RunningRates::RunningRates(const design::CampaignSpec& spec,
                           std::map<std::string, analyze::ArmControls> controls)
    : spec_(spec), judging_(analyze::judging_of(spec)), controls_(std::move(controls)) {}

void RunningRates::add(const record::TrialRecord& row) {
  const auto controls = controls_.find(row.id.arm);
  if (row.kind != record::TrialKind::trial || controls == controls_.end()) return;
  std::optional<record::Reason> reason;
  try {
    reason = analyze::classify(row, controls->second, judging_).reason;
  } catch (const Error&) {
    return;  // an error in the progress display must not end a campaign
  }
  Cell& cell = cells_[row.id.arm][row.id.stratum];
  cell.bits = row.stratum_bits;
  const auto draw = static_cast<std::size_t>(row.id.draw);
  if (cell.seen.size() <= draw) cell.seen.resize(draw + 1);
  if (cell.seen[draw]) return;
  cell.seen[draw] = reason;
  while (cell.counted < cell.seen.size() && cell.seen[cell.counted]) ++cell.counted;
}

void RunningRates::remove(const record::TrialId& id) {
  const auto arm = cells_.find(id.arm);
  if (arm == cells_.end()) return;
  const auto found = arm->second.find(id.stratum);
  if (found == arm->second.end()) return;
  Cell& cell = found->second;
  const auto draw = static_cast<std::size_t>(id.draw);
  if (draw >= cell.seen.size() || !cell.seen[draw]) return;
  cell.counted = std::min(cell.counted, draw);
  cell.seen[draw].reset();
  lines_.clear();
}

void RunningRates::set_rounds(std::vector<record::Round> rounds) {
  rounds_ = std::move(rounds);
  lines_.clear();
}

std::size_t RunningRates::trials(const std::string& arm) const { return trials(arm, ""); }

std::uint64_t RunningRates::trials(const std::string& arm, const std::string& stratum) const {
  std::uint64_t total = 0;
  const auto found = cells_.find(arm);
  if (found == cells_.end()) return 0;
  for (const auto& [name, cell] : found->second)
    total += stratum.empty() || name == stratum ? cell.counted : 0;
  return total;
}

std::string RunningRates::text_of(const std::string& arm, const std::string& stratum,
                                  std::uint64_t trials) const {
  analyze::Observations seen;
  for (const auto& [name, cell] : cells_.at(arm)) {
    analyze::StratumSeen& one = seen.cells[{arm, name}];
    one.bits = cell.bits;
    for (std::size_t draw = 0; draw < cell.counted; ++draw) one.outcomes.push_back(cell.seen[draw].value());
  }
  const analyze::Order order = analyze::order_of(spec_, rounds_, seen);
  std::vector<analyze::Member> line;
  for (std::size_t at = 0; at < order.names.size(); ++at) {
    if (!stratum.empty() && order.names[at] != stratum) continue;
    const auto cell = seen.cells.find({arm, order.names[at]});
    line.push_back({cell == seen.cells.end() ? nullptr : &cell->second, at});
  }
  std::string text = fmt::format("{}{}{}: {} trial{}:", arm, stratum.empty() ? "" : " ", stratum, trials,
                                 trials == 1 ? "" : "s");
  for (const auto& [outcome, rate] : analyze::group_rates(line, order, spec_.confidence)) {
    text +=
        fmt::format("{} {} {:.1f} % ({:.1f} to {:.1f})", outcome == OutcomeClass::masked ? "" : ",",
                    name_of(outcome), 100 * rate.estimate, 100 * rate.anytime.low, 100 * rate.anytime.high);
  }
  const auto missing = static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](const analyze::Member& one) { return one.trials() == 0; }));
  if (missing > 0) text += fmt::format("; no trial yet in {} of {} strata", missing, line.size());
  return text;
}

void RunningRates::add_line(const std::string& arm, const std::string& stratum,
                            std::vector<std::string>& lines) {
  const std::uint64_t now = trials(arm, stratum);
  Line& line = lines_[{arm, stratum}];
  if (line.trials == 0 || now > line.trials + line.trials / growth) {
    line.text = text_of(arm, stratum, now);
    line.trials = now;
  }
  lines.push_back(line.text);
}

std::vector<std::string> RunningRates::lines() {
  std::vector<std::string> lines;
  std::vector<std::string> without;
  const auto add = [&](const std::string& arm, const std::string& stratum) {
    if (trials(arm, stratum) > 0) return add_line(arm, stratum, lines);
    without.push_back(stratum.empty() ? arm : arm + " " + stratum);
  };
  for (const design::Arm& arm : spec_.arms) {
    const auto strata = spec_.strata->strata();
    if (spec_.strata->pooled() || strata.size() < 2) {
      add(arm.name, "");
    } else {
      for (const record::Stratum& stratum : strata) add(arm.name, stratum.name);
    }
  }
  if (lines.empty()) return lines;
  if (lines.size() > most_lines) {
    const std::size_t more = lines.size() - most_lines;
    lines.resize(most_lines);
    lines.push_back(fmt::format("and {} more", more));
  }
  if (!without.empty()) lines.push_back("no trial yet: " + listed(without));
  return lines;
}

}  // namespace bitrift::campaign
