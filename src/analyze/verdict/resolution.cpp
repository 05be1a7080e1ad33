#include "analyze/verdict/resolution.h"

#include <algorithm>
#include <cmath>

namespace bitrift::analyze {
namespace {

using record::Metric;

constexpr double kLargestRise = 1e9;  // of a loss; a rise that is not seen then is not seen at all
constexpr double kMostUnits = 1e9;    // the same for a custom metric, in units of the clean runs

/// The golden run of one data order, with one metric made worse at the horizon.
class Probe {
 public:
  Probe(const Calibration& calibration, const Trajectory& golden, const Metric& metric)
      : calibration_(calibration),
        golden_(golden),
        run_(golden),
        metric_(metric),
        value_(metric.value_in(golden[calibration.evaluations() - 1]).value_or(0)) {}

  [[nodiscard]] double value() const noexcept { return value_; }
  [[nodiscard]] bool outside(double value) {
    metric_.set(run_[calibration_.evaluations() - 1], value);
    const Ranking ranking = calibration_.rank(run_, golden_);
    const std::vector<Metric>& outside = ranking.outside.back();
    return std::find(outside.begin(), outside.end(), metric_) != outside.end();
  }

 private:
  const Calibration& calibration_;
  const Trajectory& golden_;
  Trajectory run_;
  const Metric& metric_;
  double value_;
};

// Right answers are counted: the values are exactly those that an evaluation gives. Harm never becomes
// harmless by growing.
std::optional<double> fall_by_targets(Probe& probe, double targets) {
  const double right = std::round(probe.value() * targets);
  double inside = 0;
  double outside = right;
  if (right == 0 || !probe.outside(0)) return std::nullopt;
  while (outside - inside > 1) {
    const double middle = std::floor((inside + outside) / 2);
    (probe.outside((right - middle) / targets) ? outside : inside) = middle;
  }
  return outside / targets;
}

// worse: the metric's value after this much harm.
template <typename Worse>
std::optional<double> smallest_harm(Probe& probe, double largest, const Worse& worse) {
  if (largest <= 0 || !probe.outside(worse(largest))) return std::nullopt;
  double inside = 0;
  double outside = largest;
  for (int i = 0; i < 50; ++i) {
    const double middle = (inside + outside) / 2;
    (probe.outside(worse(middle)) ? outside : inside) = middle;
  }
  return outside;
}

std::optional<double> resolution_of(const Calibration& calibration, const Trajectory& golden,
                                    const Metric& metric, double unit) {
  Probe probe(calibration, golden, metric);
  if (metric.scale() == record::MetricScale::ratio) {
    const auto harm = smallest_harm(probe, std::log(kLargestRise),
                                    [&](double growth) { return probe.value() * std::exp(growth); });
    return harm ? std::optional(std::expm1(*harm)) : std::nullopt;
  }
  if (metric.scale() == record::MetricScale::plain) {
    const double sign = metric.better() == record::Better::lower ? 1 : -1;
    return smallest_harm(probe, kMostUnits * unit,
                         [&](double change) { return probe.value() + sign * change; });
  }
  if (metric == Metric(Metric::test_accuracy) && calibration.targets())
    return fall_by_targets(probe, static_cast<double>(*calibration.targets()));
  return smallest_harm(probe, probe.value(), [&](double fall) { return probe.value() - fall; });
}

}  // namespace

Resolution resolution_of(const ArmControls& controls) {
  const Calibration& calibration = controls.calibration.value();
  const std::vector<double> units = calibration.units();
  Resolution resolution;
  for (std::size_t j = 0; j < calibration.metrics().size(); ++j) {
    const Metric& metric = calibration.metrics()[j];
    std::optional<double> worst = 0;
    for (const CleanRun& golden : controls.golden) {
      const auto one = resolution_of(calibration, golden.evaluations, metric, units[j]);
      worst = one && worst ? std::optional(std::max(*one, *worst)) : std::nullopt;
    }
    resolution[metric] = worst;
  }
  return resolution;
}

}  // namespace bitrift::analyze
