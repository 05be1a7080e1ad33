// Rows sorted by stratum and arm, each row classified once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyze/verdict/trust.h"
#include "design/campaign_spec.h"
#include "record/outcome.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// The observations of one stratum under one arm.
struct StratumSeen {
  std::uint64_t bits = 0;                ///< size of the stratum
  std::vector<record::Reason> outcomes;  ///< of draws 0, 1, ... up to the first draw without a row
  std::vector<record::Course> courses;   ///< of the same draws
  /// For each of these draws, how many of the n + 1 runs (the clean ones and this one) are at least as
  /// harmful; 0 where metrics did not decide.
  std::vector<std::size_t> ranks;
  /// For each of these draws, the test accuracy of its golden run minus that of the trial at the horizon, as
  /// a share; absent for crashes.
  std::vector<std::optional<double>> accuracy_losses;
  std::uint64_t waiting = 0;  ///< rows that follow the gap: they count once it is filled
  [[nodiscard]] std::uint64_t trials() const noexcept { return outcomes.size(); }
  /// How many of the first `limit` outcomes are of this class.
  [[nodiscard]] std::uint64_t count(record::OutcomeClass outcome,
                                    std::uint64_t limit = ~std::uint64_t{0}) const;
  /// 1 for each of the first `limit` outcomes that is of this class, else 0.
  [[nodiscard]] std::vector<std::uint8_t> hits(record::OutcomeClass outcome,
                                               std::uint64_t limit = ~std::uint64_t{0}) const;
};

struct Observations {
  std::map<std::pair<std::string, std::string>, StratumSeen> cells;  ///< (arm, stratum)
  std::uint64_t canaries = 0;  ///< rows of canaries, all of which behaved
};

/// trust: of the same rows. Only rows without a gap before them count: trials that end early have other
/// outcomes than trials that take long, so the rows that arrive first are not a fair sample. Throws
/// Error(conflict) when controls are missing, canaries misbehave, clean runs are called SDC more often than
/// the stated level allows, a row occurs twice, a stratum's size is not the same in all rows, or a draw
/// exceeds it; Error(unsupported) on rows drawn by another measure than bits.
[[nodiscard]] Observations observe(const std::vector<record::TrialRecord>& rows,
                                   const design::CampaignSpec& spec, const Trust& trust);
/// The same, judged as the campaign's spec says.
[[nodiscard]] Observations observe(const std::vector<record::TrialRecord>& rows,
                                   const design::CampaignSpec& spec);

}  // namespace bitrift::analyze
