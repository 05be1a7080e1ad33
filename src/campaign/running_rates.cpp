#include "campaign/running_rates.h"

#include <utility>

#include "core/error.h"

namespace bitrift::campaign {
namespace {

using record::OutcomeClass;

constexpr std::size_t most_lines = 8;
constexpr OutcomeClass all_classes[] = {OutcomeClass::masked, OutcomeClass::sdc, OutcomeClass::crash};

std::size_t index_of(OutcomeClass outcome) { return static_cast<std::size_t>(outcome); }

}  // namespace

RunningRates::RunningRates(const record::CampaignSpec& spec,
                           std::map<std::string, analyze::ArmControls> controls)
    : spec_(spec), controls_(std::move(controls)) {}

void RunningRates::add(const record::TrialRecord& row) {
  const auto controls = controls_.find(row.id.arm);
  if (row.kind != record::TrialKind::trial || controls == controls_.end()) return;
  std::uint8_t mark = 0;
  try {
    const OutcomeClass outcome = analyze::classify(row, controls->second, spec_.judge).outcome_class();
    mark = static_cast<std::uint8_t>(1 + index_of(outcome));
  } catch (const Error&) {
    return;  // what is shown on the way must not end a campaign
  }
  Cell& cell = cells_[row.id.arm][row.id.stratum];
  cell.bits = row.stratum_bits;
  const auto draw = static_cast<std::size_t>(row.id.draw);
  if (cell.seen.size() <= draw) cell.seen.resize(draw + 1);
  if (cell.seen[draw] != 0) return;
  cell.seen[draw] = mark;
  for (; cell.counted < cell.seen.size() && cell.seen[cell.counted] != 0; ++cell.counted) {
    ++cell.hits.at(cell.seen[cell.counted] - std::size_t{1});
  }
}

void RunningRates::remove(const record::TrialId& id) {
  const auto arm = cells_.find(id.arm);
  if (arm == cells_.end()) return;
  const auto found = arm->second.find(id.stratum);
  if (found == arm->second.end()) return;
  Cell& cell = found->second;
  const auto draw = static_cast<std::size_t>(id.draw);
  if (draw >= cell.seen.size() || cell.seen[draw] == 0) return;
  while (cell.counted > draw) --cell.hits.at(cell.seen[--cell.counted] - std::size_t{1});
  cell.seen[draw] = 0;
}

std::size_t RunningRates::trials(const std::string& arm) const {
  std::size_t total = 0;
  const auto found = cells_.find(arm);
  if (found == cells_.end()) return 0;
  for (const auto& [name, cell] : found->second) total += cell.counted;
  return total;
}

std::vector<analyze::StratumCount> RunningRates::counts(const std::string& arm, const std::string& stratum,
                                                        OutcomeClass outcome) const {
  std::vector<analyze::StratumCount> counts;
  const auto found = cells_.find(arm);
  if (found == cells_.end()) return counts;
  for (const auto& [name, cell] : found->second) {
    if (cell.counted == 0 || (!stratum.empty() && name != stratum)) continue;
    counts.push_back({cell.bits, cell.hits.at(index_of(outcome)), cell.counted});
  }
  return counts;
}

analyze::StratifiedRate RunningRates::rate(const std::string& arm, OutcomeClass outcome) const {
  return analyze::stratified_rate(counts(arm, "", outcome), spec_.confidence);
}

void RunningRates::add_line(const std::string& arm, const std::string& stratum,
                            std::vector<std::string>& lines) const {
  std::uint64_t trials = 0;
  for (const analyze::StratumCount& count : counts(arm, stratum, OutcomeClass::masked))
    trials += count.trials;
  if (trials == 0) return;
  std::string line = fmt::format("{}{}{}: {} trial{}:", arm, stratum.empty() ? "" : " ", stratum, trials,
                                 trials == 1 ? "" : "s");
  for (const OutcomeClass outcome : all_classes) {
    const analyze::StratifiedRate seen =
        analyze::stratified_rate(counts(arm, stratum, outcome), spec_.confidence);
    line += fmt::format("{} {} {:.1f} % ({:.1f} to {:.1f})", outcome == OutcomeClass::masked ? "" : ",",
                        record::outcome_class_name(outcome), 100 * seen.estimate, 100 * seen.wilson.low,
                        100 * seen.wilson.high);
  }
  lines.push_back(line);
}

std::vector<std::string> RunningRates::lines() const {
  std::vector<std::string> lines;
  for (const record::Arm& arm : spec_.arms) {
    if (spec_.strata.models.size() < 2) {
      add_line(arm.name, "", lines);
    } else {
      for (const auto& model : spec_.strata.models) add_line(arm.name, model.name, lines);
    }
  }
  if (lines.size() > most_lines) {
    const std::size_t more = lines.size() - most_lines;
    lines.resize(most_lines);
    lines.push_back(fmt::format("and {} more", more));
  }
  return lines;
}

}  // namespace bitrift::campaign
