// How much test accuracy trials lose, without any threshold of a verdict.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyze/rates/interval.h"
#include "analyze/rates/picks.h"
#include "analyze/rates/stratum_part.h"
#include "record/json/json.h"

namespace bitrift::analyze {

/// The losses of test accuracy for which shares are given, in points.
inline constexpr std::array<double, 6> effect_points = {0.1, 0.5, 1, 2, 5, 10};

/// The observations of one stratum, for one arm.
struct StratumLosses {
  std::uint64_t bits = 0;  ///< size of its population; 0: not known, so nothing is known about the total
  /// For draws 0, 1, ... without a gap: points of test accuracy lost; nullopt: a crash.
  std::vector<std::optional<double>> losses;
  bool counted = true;         ///< whether it belongs to the total
  const Part* part = nullptr;  ///< as in StratumHits
};

struct Effect {
  double points = 0;
  double estimate = 0;  ///< share of the trials that lose more than that
  Interval band;        ///< anytime; the bands of all points hold together
};

struct Effects {
  std::array<Effect, effect_points.size()> beyond;
  double crash = 0;       ///< share of the trials that have no accuracy at all
  double confidence = 0;  ///< of all bands together
};

/// The share of trials that lose more than each of effect_points, over the counted strata, weighted as rates
/// are. confidence: with which all bands hold together, at every look (Bonferroni over total_interval). A
/// loss that exceeds a limit by rounding only does not exceed it. Throws as total_estimate and total_interval
/// do.
[[nodiscard]] Effects effects_of(const std::vector<PickedRound>& rounds,
                                 const std::vector<StratumLosses>& strata, double confidence, double aim = 0);

/// {"crash", "confidence", "beyond": [{"points", "estimate", "band"}]}
[[nodiscard]] record::Json to_json(const Effects& effects);

}  // namespace bitrift::analyze
