// Sampling by rounds: the draws of the next round, and when they are enough (docs/statistics.md, "Rounds").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyze/observations.h"
#include "design/campaign_spec.h"
#include "record/round.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// A spec with more faults than this may not ask for `exhaustive: true`.
inline constexpr std::uint64_t largest_exhaustive = 1'000'000;

/// The plan of the round after `rounds`, or a round with `stop`: a pure function of the spec, the strata in
/// their order, and the rows of earlier rounds (rows of later draws change nothing). Throws Error(conflict)
/// when rows of earlier rounds are missing, Error(bad_input) when exhaustive asks for too much. In a campaign
/// that was extended, rounds are those of its first spec up to their stop, then those of the next spec: the
/// first of these draws what a new stratum or a larger number still needs, and new arms join in it.
[[nodiscard]] record::Round next_round(const design::CampaignSpec& campaign,
                                       const std::vector<record::Stratum>& strata,
                                       const std::vector<record::Round>& rounds, const Observations& seen);

/// The prior belief about a stratum: as if this many draws had shown this many rare outcomes.
struct Imagined {
  double rare = 0;
  double draws = 0;
};
/// The prior for a bit field ("exponent", or a list of bits).
[[nodiscard]] Imagined imagined(const std::string& field);

/// Splits `total` in proportion to `demand`, at most capacity[h] each, rounded so that the sum is
/// min(total, sum of capacities over positive demand).
[[nodiscard]] std::vector<std::uint64_t> apportion(std::uint64_t total, const std::vector<double>& demand,
                                                   const std::vector<std::uint64_t>& capacity);

}  // namespace bitrift::analyze
