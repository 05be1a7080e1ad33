#include "analyze/verdict/resolution.h"

#include <algorithm>
#include <cmath>

namespace bitrift::analyze {
namespace {

using record::Evaluation;
using record::Metric;

constexpr double kLargestRise = 1e9;  // of a loss; a rise that is not seen then is not seen at all

void set_value(Evaluation& evaluation, Metric metric, double value) {
  switch (metric) {
    case Metric::test_accuracy:
      evaluation.test_accuracy = value;
      break;
    case Metric::test_capped_loss:
      evaluation.test_capped_loss = value;
      break;
    case Metric::test_loss:
      evaluation.test_loss = value;
      break;
    case Metric::train_accuracy:
      evaluation.train_accuracy = value;
      break;
    case Metric::train_loss:
      evaluation.train_loss = value;
      break;
  }
}

/// The golden run of one data order, with one metric made worse at the horizon.
class Probe {
 public:
  Probe(const Calibration& calibration, const Trajectory& golden, Metric metric)
      : calibration_(calibration),
        golden_(golden),
        run_(golden),
        metric_(metric),
        value_(record::value_of(golden[calibration.evaluations() - 1], metric).value_or(0)) {}

  [[nodiscard]] double value() const noexcept { return value_; }
  [[nodiscard]] bool outside(double value) {
    set_value(run_[calibration_.evaluations() - 1], metric_, value);
    const Ranking ranking = calibration_.rank(run_, golden_);
    const std::vector<Metric>& outside = ranking.outside.back();
    return std::find(outside.begin(), outside.end(), metric_) != outside.end();
  }

 private:
  const Calibration& calibration_;
  const Trajectory& golden_;
  Trajectory run_;
  Metric metric_;
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

std::optional<double> resolution_of(const Calibration& calibration, const Trajectory& golden, Metric metric) {
  Probe probe(calibration, golden, metric);
  if (record::is_loss(metric)) {
    const auto harm = smallest_harm(probe, std::log(kLargestRise),
                                    [&](double growth) { return probe.value() * std::exp(growth); });
    return harm ? std::optional(std::expm1(*harm)) : std::nullopt;
  }
  if (metric == Metric::test_accuracy && calibration.targets())
    return fall_by_targets(probe, static_cast<double>(*calibration.targets()));
  return smallest_harm(probe, probe.value(), [&](double fall) { return probe.value() - fall; });
}

}  // namespace

Resolution resolution_of(const ArmControls& controls) {
  const Calibration& calibration = controls.calibration.value();
  Resolution resolution;
  for (const Metric metric : calibration.metrics()) {
    std::optional<double> worst = 0;
    for (const CleanRun& golden : controls.golden) {
      const auto one = resolution_of(calibration, golden.evaluations, metric);
      worst = one && worst ? std::optional(std::max(*one, *worst)) : std::nullopt;
    }
    resolution[metric] = worst;
  }
  return resolution;
}

}  // namespace bitrift::analyze
