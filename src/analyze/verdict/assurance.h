// How far the verdicts of an arm can be trusted, in numbers.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "analyze/verdict/false_sdc.h"
#include "analyze/verdict/resolution.h"
#include "record/json/json.h"

namespace bitrift::analyze {

/// How far the verdicts of one arm can be trusted.
struct Assurance {
  std::size_t envelope_runs = 0;
  double level = 0;       ///< stated: at most this share of clean runs is called SDC
  double level_with = 0;  ///< that holds for these envelope runs with the campaign's confidence
  FalseSdc measured;
  double at_most = 1;  ///< largest false-SDC rate that the held-out runs do not refute; 1 without runs
  Resolution resolution;
};

/// confidence: of the campaign.
[[nodiscard]] Assurance assurance_of(const ArmControls& controls, const FalseSdc& measured,
                                     double confidence);

/// Harmless faults that end farther than this many units from their golden run differ by luck, not by
/// rounding: a rigid training keeps them within about 0.01.
inline constexpr double chaotic = 0.1;

/// The largest fall of accuracy that a campaign may miss without a warning: 5 points, which the JPDC 2024
/// study calls a degradation.
inline constexpr double coarse = 0.05;

/// One paragraph for each arm, and how to sharpen the arms that miss a large fall.
[[nodiscard]] std::string assurance_text(const std::map<std::string, Assurance>& arms, double confidence);
[[nodiscard]] record::Json to_json(const Assurance& arm);

}  // namespace bitrift::analyze
