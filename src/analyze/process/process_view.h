// How trainings end in which ranks fail (docs/rank-failure.md).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyze/process/goodput.h"
#include "analyze/summary.h"
#include "analyze/views/recovery_times.h"
#include "core/named_enum.h"
#include "record/json/json.h"
#include "record/outcome.h"

namespace bitrift::analyze {

/// How a trial in which ranks failed ended: the classes of outcomes, with masked split in two.
enum class RecoveryOutcome {
  bitwise,       ///< recovered, and its final state equals the golden run's
  within_noise,  ///< recovered, with another final state, but masked
  degraded,      ///< recovered, but an SDC
  lost,          ///< a crash, whatever the reason
};
constexpr EnumNames<4> names_of(RecoveryOutcome) {
  return {"outcome of a recovery",
          {"recovered_bitwise", "recovered_within_noise", "recovered_degraded", "lost"}};
}
inline constexpr std::size_t recovery_outcomes = names_of(RecoveryOutcome{}).words.size();
[[nodiscard]] RecoveryOutcome recovery_outcome_of(record::Reason reason) noexcept;

/// The trials of an arm in one phase or storm, or in all requested phases.
struct ProcessLine {
  std::string arm;
  /// Or a storm: the field of the stratum. Absent: the total over phases, weighted by their sizes. Storms
  /// have no total.
  std::optional<std::string> phase;
  std::uint64_t trials = 0;         ///< that count
  std::uint64_t waiting = 0;        ///< rows after a draw without a row yet
  std::uint64_t population = 0;     ///< faults that could be drawn; 0 where it is not known
  std::vector<std::string> unseen;  ///< phases without a trial: estimates leave them out
  std::array<std::uint64_t, recovery_outcomes> counts{};
  std::vector<Rate> rates;                          ///< by RecoveryOutcome; empty without a trial
  std::map<record::Reason, std::uint64_t> reasons;  ///< of lost trials
  [[nodiscard]] std::uint64_t count(RecoveryOutcome outcome) const {
    return counts[static_cast<std::size_t>(outcome)];
  }
  [[nodiscard]] const Rate& rate(RecoveryOutcome outcome) const {
    return rates.at(static_cast<std::size_t>(outcome));
  }
};

struct ProcessView {
  std::string campaign;
  double confidence = 0;       ///< of the spec
  double each_confidence = 0;  ///< of every interval alone
  IntervalKind interval = IntervalKind::anytime;
  bool simultaneous = false;
  RecoveryPlace place = RecoveryPlace::phase;  ///< what the strata are
  std::vector<ProcessLine> lines;        ///< arms and phases in the order of the spec, each arm's total last
  std::vector<RecoveryLine> recoveries;  ///< in the same order
  std::vector<Goodput> goodput;          ///< in the same order; of storms only
  [[nodiscard]] bool storms() const noexcept { return place == RecoveryPlace::storm; }
};

/// rows, rounds: as for summarize(), whose options interval, simultaneous and where apply. Throws as it does,
/// and Error(bad_input) when no rank fails in this campaign.
[[nodiscard]] ProcessView process_view(const std::vector<record::TrialRecord>& rows,
                                       const design::CampaignSpec& spec, const Trust& trust,
                                       const std::vector<record::Round>& rounds,
                                       const SummaryOptions& options = {});

/// Plain text: outcomes, times of recoveries, their steps and bytes, and what the columns mean.
[[nodiscard]] std::string table(const ProcessView& view);
/// Schema "bitrift/process/1" (docs/rank-failure.md); the caller adds "provenance".
[[nodiscard]] record::Json to_json(const ProcessView& view);

}  // namespace bitrift::analyze
