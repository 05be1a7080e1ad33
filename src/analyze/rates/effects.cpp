#include "analyze/rates/effects.h"

#include <algorithm>
#include <cmath>

#include "analyze/rates/total_estimate.h"
#include "analyze/rates/total_interval.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

// Differences of two shares of correct answers carry rounding errors far below this, and whole answers of
// 10^9 targets lie further apart.
constexpr double kRounding = 1e-8;
constexpr std::uint8_t kCrash = effect_points.size() + 1;

// How many of the limits a trial exceeds, or that it crashed.
std::uint8_t class_of_loss(const std::optional<double>& loss) {
  if (!loss) return kCrash;
  const auto exceeds = [&](double points) { return *loss > points + kRounding; };
  return static_cast<std::uint8_t>(std::count_if(effect_points.begin(), effect_points.end(), exceeds));
}

}  // namespace

Effects effects_of(const std::vector<PickedRound>& rounds, const std::vector<StratumLosses>& strata,
                   double confidence, double aim) {
  std::vector<StratumClasses> classes;
  for (const StratumLosses& stratum : strata) {
    // Strata without a draw are not part of the estimate.
    classes.push_back(
        {stratum.bits, {}, stratum.counted && !stratum.losses.empty(), stratum.part == nullptr});
    for (const auto& loss : stratum.losses) classes.back().classes.push_back(class_of_loss(loss));
  }
  const std::vector<double> shares = total_estimate(rounds, classes, kCrash + std::size_t{1});
  Effects effects;
  effects.crash = shares[kCrash];
  effects.confidence = confidence;
  double beyond = 0;
  for (std::size_t k = effect_points.size(); k-- > 0;) {
    beyond += shares[k + 1];
    std::vector<StratumHits> hits;
    for (std::size_t h = 0; h < strata.size(); ++h) {
      hits.push_back({strata[h].bits, {}, strata[h].counted, 1, strata[h].part});
      for (const std::uint8_t one : classes[h].classes) {
        hits.back().hits.push_back(one > k && one != kCrash ? 1 : 0);
      }
    }
    const double estimate = std::clamp(beyond, 0.0, 1.0);
    const bool known = std::all_of(strata.begin(), strata.end(), [](const StratumLosses& stratum) {
      return !stratum.counted || stratum.bits > 0;
    });
    const Interval band =
        known ? total_interval(rounds, hits, each_of(effect_points.size(), confidence), aim) : Interval{};
    effects.beyond[k] = {effect_points[k], estimate, stretched_to(estimate, band)};
  }
  return effects;
}

record::Json to_json(const Effects& effects) {
  record::Json beyond = record::Json::array();
  for (const Effect& effect : effects.beyond) {
    beyond.push_back({{"points", effect.points},
                      {"estimate", record::number_to_json(effect.estimate)},
                      {"band", record::Json::array({record::number_to_json(effect.band.low),
                                                    record::number_to_json(effect.band.high)})}});
  }
  return {{"crash", record::number_to_json(effects.crash)},
          {"confidence", record::number_to_json(effects.confidence)},
          {"beyond", beyond}};
}

}  // namespace bitrift::analyze
