// The share of time that a repeatedly killed training uses, measured and predicted.
#pragma once

#include <cstdint>
#include <vector>

#include "study/row/study_row.h"
#include "study/row/study_spec.h"

namespace bitrift::study {

/// The seconds from a start to its kill: exponentially distributed with the spec's mean, a pure function of
/// the spec and `life`, which must be below spec.lives. A stratified sample (Cochran, Sampling Techniques,
/// 3rd edition, chapter 5): each of spec.lives equally probable ranges of the distribution contains one of
/// the times, in random order, so that chance moves a result as little as with 6 to 10 times as many
/// independent lives (docs/checkpoint-cost.md). The same for every interval and mode, so that they meet the
/// same failures.
[[nodiscard]] double time_to_kill(const PolicySpec& spec, std::uint64_t life);

/// The interval with the least expected loss, in steps, at least 1: Daly's for sync, and
/// record::asynchronous_interval() for async.
[[nodiscard]] std::int64_t computed_interval(record::SaveMode mode, const PolicyCosts& costs, double mean);

/// Expected share of time for work that is never lost, for checkpoints every `interval` steps and kills at
/// exponential times: the inverse of record::daly_slowdown() for sync, and of record::asynchronous_slowdown()
/// for async. A save that takes longer than an interval stops the next one: then files are complete s + p
/// seconds after each other instead of W + s.
[[nodiscard]] double predicted_useful(record::SaveMode mode, std::int64_t interval, const PolicyCosts& costs,
                                      double mean);

/// The same model of one life: the steps up to the last checkpoint that it completes in this many seconds.
[[nodiscard]] std::int64_t predicted_steps(record::SaveMode mode, std::int64_t interval,
                                           const PolicyCosts& costs, double seconds);

struct UsefulTime {
  double fraction = 0;
  double standard_error = 0;  ///< 0 for fewer than two lives
  std::uint64_t degrees = 0;  ///< degrees of freedom of the standard error
};

/// A life, and the costs that were measured before it.
struct TimedLife {
  Life life;
  PolicyCosts costs;

  /// The cost of a step, a save and a restart in this life: measured in the life itself where it was,
  /// otherwise from `costs`.
  [[nodiscard]] PolicyCosts own_costs() const;
};

/// A weighted mean of costs; 0 without any weight.
class MeanCosts {
 public:
  void add(const PolicyCosts& costs, double weight = 1);
  [[nodiscard]] bool any() const noexcept { return weight_ > 0; }
  [[nodiscard]] PolicyCosts value() const;

 private:
  PolicyCosts sum_;
  double weight_ = 0;
};

/// Means over the measurements of these lives: the weight of each is the number of steps that it kept, and so
/// of its saves. Restarts, and all costs if no life has its own measurements, are means of those measured
/// before the lives. Without lives 0.
[[nodiscard]] PolicyCosts mean_own_costs(const std::vector<TimedLife>& lives);

/// Sum of steps x seconds of a step in this life, over the sum of seconds, for lives that were ended at
/// time_to_kill(). The standard error is that of a ratio of means, without the correction for finite
/// populations (Cochran, equation 6.13), where the variance is estimated from pairs of lives with neighboring
/// times (the same, section 5A.12, collapsed strata). It is rather too large than too small, because the
/// difference between two neighbors counts as chance. Without lives 0.
[[nodiscard]] UsefulTime measured_useful(const std::vector<TimedLife>& lives);

/// What the model says for the exact times at which these lives were killed, and how far the measured part is
/// above it. The differences are those of single lives, so their standard error, which is that of independent
/// lives (Cochran, equation 6.13), does not include the chance of the kills.
struct ReplayedKills {
  double before = 0;      ///< with the costs measured before the lives
  double own = 0;         ///< with the costs measured in the lives
  UsefulTime difference;  ///< measured - before
};
[[nodiscard]] ReplayedKills replayed_kills(record::SaveMode mode, std::int64_t interval,
                                           const std::vector<TimedLife>& lives);

}  // namespace bitrift::study
