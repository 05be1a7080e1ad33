#include "analyze/verdict/false_sdc.h"

#include <algorithm>
#include <cmath>

#include <boost/math/distributions/beta.hpp>
#include <fmt/format.h>

#include "analyze/verdict/rises.h"

namespace bitrift::analyze {
namespace {

using record::TrialKind;

double log_beta(double a, double b) { return std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b); }

// The largest distance over the judged metrics that the run has, in units. The run must have reached the
// horizon.
double distance_from_golden(const record::TrialRecord& row, const ArmControls& controls,
                            design::Judge judge) {
  const std::vector<double> units = controls.calibration.value().units();
  const MetricValues rises = rises_of(row, controls, judge);
  double distance = 0;
  for (std::size_t j = 0; j < units.size(); ++j) {
    if (!std::isnan(rises[j])) distance = std::max(distance, std::abs(rises[j]) / units[j]);
  }
  return distance;
}

void add_problem(std::vector<std::string>& problems, const std::string& arm, const Judged& judged,
                 const Calibration& calibration, const char* what, const char* cure) {
  const double chance = chance_of(judged, calibration);
  if (chance >= contradiction) return;
  problems.push_back(fmt::format(
      "arm '{}': {} of {} {} are called SDC or crash; with the stated level of {:.2g} % that has a "
      "probability of {:.1g}: {}",
      arm, judged.called, judged.runs, what, 100 * calibration.level(), chance, cure));
}

}  // namespace

FalseSdc false_sdc_of(const std::vector<record::TrialRecord>& rows, const std::string& arm,
                      const ArmControls& controls, const Judging& judging) {
  FalseSdc found;
  for (const record::TrialRecord& row : rows) {
    if (row.id.arm != arm || (row.kind != TrialKind::held_out && row.kind != TrialKind::jitter)) continue;
    Judged& judged = row.kind == TrialKind::held_out ? found.held_out : found.jitter;
    ++judged.runs;
    const record::OutcomeClass outcome = classify(row, controls, judging).outcome_class();
    if (outcome != record::OutcomeClass::masked) ++judged.called;
    if (row.kind != TrialKind::jitter || outcome == record::OutcomeClass::crash || !controls.calibration)
      continue;
    const double distance = distance_from_golden(row, controls, judging.judge);
    found.jitter_distance = std::max(found.jitter_distance.value_or(0), distance);
  }
  return found;
}

double upper_bound(const Judged& judged, double confidence) {
  if (judged.called >= judged.runs) return 1;
  const auto k = static_cast<double>(judged.called);
  const auto n = static_cast<double>(judged.runs);
  return boost::math::quantile(boost::math::beta_distribution<double>(k + 1, n - k), confidence);
}

double chance_of(const Judged& judged, const Calibration& calibration) {
  const auto r = static_cast<double>(calibration.rank_limit());
  const double rest = static_cast<double>(calibration.runs()) + 1 - r;
  const auto m = static_cast<double>(judged.runs);
  double below = 0;  // P(fewer than called)
  for (std::uint64_t i = 0; i < judged.called; ++i) {
    const auto k = static_cast<double>(i);
    const double choose = std::lgamma(m + 1) - std::lgamma(k + 1) - std::lgamma(m - k + 1);
    below += std::exp(choose + log_beta(k + r, m - k + rest) - log_beta(r, rest));
  }
  return std::max(0.0, 1 - below);
}

std::vector<std::string> false_sdc_problems(const std::map<std::string, FalseSdc>& found,
                                            const std::map<std::string, ArmControls>& controls) {
  std::vector<std::string> problems;
  for (const auto& [arm, of_arm] : found) {
    const auto& calibration = controls.at(arm).calibration;
    if (!calibration) continue;
    add_problem(problems, arm, of_arm.held_out, *calibration, "clean runs in other data orders",
                "the clean runs are not alike; look for what changes between them");
    add_problem(problems, arm, of_arm.jitter, *calibration, "golden runs with flips of lowest mantissa bits",
                "its data orders are too few to be representative; raise controls.orders");
  }
  return problems;
}

}  // namespace bitrift::analyze
