#include "analyze/summary.h"

#include <algorithm>
#include <set>
#include <utility>

#include "analyze/classify.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;
using record::TrialKind;
using record::TrialRecord;

/// What was seen of one stratum under one arm.
struct Cell {
  std::uint64_t bits = 0;
  std::uint64_t trials = 0;
  std::map<OutcomeClass, std::uint64_t> counts;
  std::map<record::Reason, std::uint64_t> reasons;
};

/// (arm, stratum name) to what was seen.
using Cells = std::map<std::pair<std::string, std::string>, Cell>;

std::vector<std::string> dimensions(const std::vector<std::string>& by) {
  std::vector<std::string> result = {"strategy"};
  for (const std::string& name : by) {
    if (name == "layer") {
      fail(ErrorCode::bad_input,
           "--by layer: the strata of this campaign are roles x fields, and how many bits of a stratum a "
           "layer holds is "
           "not in its rows; give strategy, role, field or stratum");
    }
    if (name != "strategy" && name != "role" && name != "field" && name != "stratum") {
      fail(ErrorCode::bad_input, "--by {}: give strategy, role, field or stratum", name);
    }
    if (std::find(result.begin(), result.end(), name) == result.end()) result.push_back(name);
  }
  return result;
}

// "<role>.<field>"; fields such as "0-3" hold no dot.
std::pair<std::string, std::string> role_and_field(const std::string& stratum) {
  const auto dot = stratum.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == stratum.size()) {
    fail(ErrorCode::bad_file, "stratum '{}': its name must be <role>.<field>", stratum);
  }
  return {stratum.substr(0, dot), stratum.substr(dot + 1)};
}

std::map<std::string, std::string> key_of(const std::string& arm, const std::string& stratum,
                                          const std::vector<std::string>& by) {
  const auto [role, field] = role_and_field(stratum);
  std::map<std::string, std::string> key;
  for (const std::string& name : by) {
    if (name == "strategy") key["arm"] = arm;
    if (name == "role") key["role"] = role;
    if (name == "field") key["field"] = field;
    if (name == "stratum") key["stratum"] = stratum;
  }
  return key;
}

void add_row(Cells& cells, const TrialRecord& row, const ArmControls& controls, const std::string& judge) {
  if (row.measure != "bit") {
    fail(ErrorCode::unsupported,
         "row {}: drawn by the measure '{}'; rates are estimated for uniformly drawn bits only",
         row.id.text(), row.measure);
  }
  Cell& cell = cells[{row.id.arm, row.id.stratum}];
  if (cell.trials == 0) cell.bits = row.stratum_bits;
  if (cell.bits != row.stratum_bits || row.stratum_bits == 0) {
    fail(ErrorCode::conflict, "row {}: its stratum holds {} bits, in other rows {}", row.id.text(),
         row.stratum_bits, cell.bits);
  }
  const record::Outcome outcome = classify(row, controls, judge);
  ++cell.trials;
  ++cell.counts[outcome.outcome_class()];
  ++cell.reasons[outcome.reason];
}

// The same stratum holds the same bits in every arm, because all arms start from one checkpoint.
void check_sizes(const Cells& cells) {
  std::map<std::string, std::uint64_t> sizes;
  for (const auto& [id, cell] : cells) {
    const auto [known, fresh] = sizes.emplace(id.second, cell.bits);
    if (!fresh && known->second != cell.bits) {
      fail(ErrorCode::conflict, "stratum '{}' holds {} bits in arm '{}' and {} in another", id.second,
           cell.bits, id.first, known->second);
    }
    if (cell.trials > cell.bits) {
      fail(ErrorCode::conflict,
           "arm '{}', stratum '{}': {} trials of {} bits, but draws are without replacement", id.first,
           id.second, cell.trials, cell.bits);
    }
  }
}

std::uint64_t count_of(const Cell& cell, OutcomeClass outcome) {
  const auto found = cell.counts.find(outcome);
  return found == cell.counts.end() ? 0 : found->second;
}

Rate rate_of(const std::vector<const Cell*>& strata, double bits, OutcomeClass outcome, double confidence) {
  Rate rate;
  const auto number = static_cast<double>(strata.size());
  const double share_confidence = strata.size() == 1 ? confidence : 1 - (1 - confidence) / number;
  double smoothed = 0;
  double variance = 0;
  rate.anytime = {0, 0};
  for (const Cell* cell : strata) {
    const std::uint64_t successes = count_of(*cell, outcome);
    const auto k = static_cast<double>(successes);
    const auto n = static_cast<double>(cell->trials);
    const double weight = static_cast<double>(cell->bits) / bits;
    rate.estimate += weight * k / n;
    // Drawn towards 1/2, so that a stratum without events still has a variance.
    const double p = (k + 1) / (n + 2);
    smoothed += weight * p;
    variance += weight * weight * p * (1 - p) / n;
    const Interval part = anytime_finite(successes, cell->trials, cell->bits, share_confidence);
    rate.anytime.low += weight * part.low;
    rate.anytime.high += weight * part.high;
  }
  rate.estimate = std::min(rate.estimate, 1.0);
  rate.anytime.high = std::min(rate.anytime.high, 1.0);
  if (strata.size() == 1) {
    const Cell& only = *strata.front();
    rate.fixed =
        wilson(static_cast<double>(count_of(only, outcome)), static_cast<double>(only.trials), confidence);
  } else {
    const double effective = smoothed * (1 - smoothed) / variance;
    rate.fixed = wilson(rate.estimate * effective, effective, confidence);
  }
  return rate;
}

Group make_group(const std::map<std::string, std::string>& key, const std::vector<const Cell*>& strata,
                 double confidence) {
  Group group;
  group.key = key;
  for (const OutcomeClass outcome : {OutcomeClass::masked, OutcomeClass::sdc, OutcomeClass::crash}) {
    group.counts[outcome] = 0;
  }
  for (const Cell* cell : strata) {
    group.trials += cell->trials;
    group.bits += cell->bits;
    for (const auto& [outcome, count] : cell->counts) group.counts[outcome] += count;
    for (const auto& [reason, count] : cell->reasons) group.reasons[reason] += count;
  }
  for (const auto& [outcome, count] : group.counts) {
    group.rates[outcome] = rate_of(strata, static_cast<double>(group.bits), outcome, confidence);
  }
  return group;
}

// Controls of every arm of the spec, with canaries that behaved.
std::map<std::string, ArmControls> trusted_controls(const std::vector<TrialRecord>& rows,
                                                    const record::CampaignSpec& spec) {
  auto controls = controls_of(rows, spec.judge);
  for (const record::Arm& arm : spec.arms) {
    if (!controls.contains(arm.name)) {
      fail(ErrorCode::conflict, "arm '{}' has no controls: let `bitrift campaign run` finish them", arm.name);
    }
  }
  const auto problems = canary_problems(rows, controls, spec.judge);
  if (!problems.empty()) {
    fail(ErrorCode::conflict, "{} canaries misbehave, so no rate can be believed; the first: {}",
         problems.size(), problems.front());
  }
  return controls;
}

}  // namespace

Summary summarize(const std::vector<TrialRecord>& rows, const record::CampaignSpec& spec,
                  const std::vector<std::string>& by) {
  Summary summary;
  summary.campaign = spec.name;
  summary.seed = spec.seed;
  summary.confidence = spec.confidence;
  summary.judge = spec.judge;
  summary.by = dimensions(by);
  summary.planned =
      spec.arms.size() * spec.strata.roles.size() * spec.strata.fields.size() * spec.trials_per_stratum;
  const auto controls = trusted_controls(rows, spec);

  Cells cells;
  std::set<record::TrialId> seen;
  for (const TrialRecord& row : rows) {
    if (!seen.insert(row.id).second) {
      fail(ErrorCode::conflict, "row {} stands twice in the journal", row.id.text());
    }
    if (row.kind == TrialKind::canary) ++summary.canaries;
    if (row.kind != TrialKind::trial) continue;
    add_row(cells, row, controls.at(row.id.arm), spec.judge);
    ++summary.trials;
  }
  check_sizes(cells);

  std::map<std::map<std::string, std::string>, std::vector<const Cell*>> groups;
  for (const auto& [id, cell] : cells) groups[key_of(id.first, id.second, summary.by)].push_back(&cell);
  for (const auto& [key, strata] : groups) summary.groups.push_back(make_group(key, strata, spec.confidence));
  return summary;
}

}  // namespace bitrift::analyze
