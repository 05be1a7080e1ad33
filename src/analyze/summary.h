// From rows to rates: what the table shows, summary.json holds and the gate compares.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyze/interval.h"
#include "record/campaign_spec.h"
#include "record/json.h"
#include "record/outcome.h"
#include "record/round.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// Rate of one outcome class in a group of strata (docs/statistics.md). estimate = sum_h w_h k_h / n_h with
/// w_h the stratum's share of the group's bits, so it is the rate over uniformly drawn bits of the group.
struct Rate {
  double estimate = 0;
  Interval
      fixed;  ///< Wilson (for several strata: with the effective n of the stratified estimate; approximate)
  Interval anytime;  ///< anytime_finite; for several strata total_interval
};

/// A line of the table.
struct Group {
  std::map<std::string, std::string>
      key;                    ///< e.g. {"arm":"serial","field":"exponent"}; dimensions as in `by`
  std::uint64_t trials = 0;   ///< rows that count
  std::uint64_t waiting = 0;  ///< rows behind a draw that has none yet: they do not count
  std::uint64_t bits = 0;     ///< population
  std::map<record::OutcomeClass, std::uint64_t> counts;
  std::map<record::Reason, std::uint64_t> reasons;
  std::map<record::OutcomeClass, Rate> rates;
};

struct Summary {
  std::string campaign;  ///< name of the spec
  std::uint64_t seed = 0;
  double confidence = 0;  ///< of every interval, each taken alone
  std::string judge;
  std::vector<std::string> by;  ///< dimensions in the order of the columns; "strategy" is always the first
  std::vector<Group> groups;    ///< sorted by key
  std::uint64_t trials = 0;     ///< rows that count
  std::uint64_t waiting = 0;    ///< and that do not yet
  std::uint64_t planned = 0;    ///< trials of all rounds so far
  std::uint64_t canaries = 0;   ///< checked, all of which behaved
  std::vector<record::Round> rounds;         ///< as given
  std::optional<record::Sampling> sampling;  ///< of the spec
};

/// Groups the `trial` rows. by: as dimensions() takes it (analyze/keys.h). Canaries, controls and envelope
/// runs never count. rounds: as published; a spec with trials_per_stratum has but one and can do without.
/// Throws as observe does, and Error(conflict) on a row of a stratum that the rounds do not have;
/// Error(bad_input) on an unknown dimension or missing rounds.
[[nodiscard]] Summary summarize(const std::vector<record::TrialRecord>& rows,
                                const record::CampaignSpec& spec, const std::vector<std::string>& by,
                                const std::vector<record::Round>& rounds = {});
/// Plain text, columns aligned, at most 100 wide with names of usual length: a header line, then group, n and
/// the rates in % with Wilson interval, under it the anytime interval; at the end the reasons, counted.
[[nodiscard]] std::string table(const Summary& summary);
/// Schema "bitrift/summary/1" (docs/statistics.md); the caller adds "provenance".
[[nodiscard]] record::Json to_json(const Summary& summary);

}  // namespace bitrift::analyze
