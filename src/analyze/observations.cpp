#include "analyze/observations.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "analyze/landed.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::TrialKind;
using record::TrialRecord;

// Checks that every arm has controls, canaries behaved, and clean runs are judged as stated.
void refuse_untrusted(const Trust& trust, const design::CampaignSpec& spec) {
  for (const design::Arm& arm : spec.arms) {
    if (!trust.controls.contains(arm.name)) {
      fail(ErrorCode::conflict, "arm '{}' has no controls: let `bitrift campaign run` finish them", arm.name);
    }
  }
  if (!trust.problems.empty()) {
    fail(ErrorCode::conflict, "{} controls or canaries misbehave, so no rate can be trusted; the first: {}",
         trust.problems.size(), trust.problems.front());
  }
}

// Only for a run that reached the horizon.
std::optional<double> accuracy_loss(const TrialRecord& row, const ArmControls& controls,
                                    const Judging& judging, record::Reason reason) {
  if (record::class_of(reason) == record::OutcomeClass::crash) return std::nullopt;
  const std::size_t last = controls.horizon - 1;
  const Trajectory& golden = controls.golden.at(static_cast<std::size_t>(row.order)).evaluations;
  const auto reached = judged(*row.result, judging.judge).at(last).test_accuracy;
  if (!reached || !golden.at(last).test_accuracy) return std::nullopt;
  return *golden.at(last).test_accuracy - *reached;
}

void append(StratumSeen& cell, const TrialRecord& row, const ArmControls& controls, const Judging& judging) {
  const record::Outcome outcome = classify(row, controls, judging);
  cell.outcomes.push_back(outcome.reason);
  cell.courses.push_back(outcome.course);
  cell.accuracy_losses.push_back(accuracy_loss(row, controls, judging, outcome.reason));
  const double runs = controls.calibration ? static_cast<double>(controls.calibration->runs() + 1) : 0;
  cell.ranks.push_back(static_cast<std::size_t>(std::lround(outcome.p_value.value_or(0) * runs)));
}

// Compares a stratum's size in one row with that in the other rows of its cell.
void check_row(const TrialRecord& row, StratumSeen& cell) {
  if (row.measure != record::Measure::bit && row.stratum_bits != record::unbounded_stratum) {
    fail(ErrorCode::unsupported,
         "row {}: drawn by the measure '{}'; rates are estimated for uniformly drawn bits only",
         row.id.text(), name_of(row.measure));
  }
  if (cell.bits == 0) cell.bits = row.stratum_bits;
  if (cell.bits != row.stratum_bits || row.stratum_bits == 0) {
    fail(ErrorCode::conflict, "row {}: its stratum holds {} bits, in other rows {}", row.id.text(),
         row.stratum_bits, cell.bits);
  }
  if (row.id.draw >= cell.bits) {
    fail(ErrorCode::conflict, "row {}: its stratum holds {} bits, but draws are without replacement",
         row.id.text(), cell.bits);
  }
}

// The same stratum holds the same bits in every arm, because all arms start from one checkpoint.
void check_sizes(const Observations& seen) {
  std::map<std::string, std::uint64_t> sizes;
  for (const auto& [id, cell] : seen.cells) {
    const auto [known, fresh] = sizes.emplace(id.second, cell.bits);
    if (!fresh && known->second != cell.bits) {
      fail(ErrorCode::conflict, "stratum '{}' holds {} bits in arm '{}' and {} in another", id.second,
           cell.bits, id.first, known->second);
    }
  }
}

}  // namespace

std::uint64_t StratumSeen::count(record::OutcomeClass outcome, std::uint64_t limit) const {
  const auto end = outcomes.begin() + static_cast<std::ptrdiff_t>(std::min(limit, trials()));
  return static_cast<std::uint64_t>(std::count_if(
      outcomes.begin(), end, [&](record::Reason reason) { return record::class_of(reason) == outcome; }));
}

std::vector<std::uint8_t> StratumSeen::hits(record::OutcomeClass outcome, std::uint64_t limit) const {
  std::vector<std::uint8_t> hits(std::min(limit, trials()));
  for (std::size_t i = 0; i < hits.size(); ++i) {
    hits[i] = record::class_of(outcomes[i]) == outcome ? 1 : 0;
  }
  return hits;
}

Observations observe(const std::vector<TrialRecord>& rows, const design::CampaignSpec& spec) {
  return observe(rows, spec, trust_of(rows, judging_of(spec)));
}

Observations observe(const std::vector<TrialRecord>& rows, const design::CampaignSpec& spec,
                     const Trust& trust) {
  refuse_untrusted(trust, spec);
  Observations seen;
  // Rows by cell and draw: the journal has them in the order in which they ended.
  std::map<std::pair<std::string, std::string>, std::vector<const TrialRecord*>> cells;
  std::set<record::TrialId> others;
  for (const TrialRecord& row : rows) {
    if (row.kind == TrialKind::canary) ++seen.canaries;
    if (row.kind == TrialKind::trial) {
      cells[{row.id.arm, row.id.stratum}].push_back(&row);
    } else if (!others.insert(row.id).second) {
      fail(ErrorCode::conflict, "row {} occurs twice in the journal", row.id.text());
    }
  }
  for (auto& [id, list] : cells) {
    std::sort(list.begin(), list.end(),
              [](const TrialRecord* a, const TrialRecord* b) { return a->id.draw < b->id.draw; });
    StratumSeen& cell = seen.cells[id];
    for (std::size_t i = 0; i < list.size(); ++i) {
      const TrialRecord& row = *list[i];
      check_row(row, cell);
      if (i > 0 && list[i - 1]->id.draw == row.id.draw) {
        fail(ErrorCode::conflict, "row {} occurs twice in the journal", row.id.text());
      }
      const auto arm = trust.controls.find(row.id.arm);
      if (arm == trust.controls.end()) {
        fail(ErrorCode::conflict, "row {}: arm '{}' has no controls", row.id.text(), row.id.arm);
      }
      if (row.id.draw == cell.outcomes.size()) {
        refuse_unless_landed(row);
        append(cell, row, arm->second, trust.judging);
      } else {
        ++cell.waiting;
      }
    }
  }
  check_sizes(seen);
  return seen;
}

}  // namespace bitrift::analyze
