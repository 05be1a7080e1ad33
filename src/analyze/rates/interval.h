// Confidence intervals for a rate. All throw Error(bad_input) when confidence is not inside (0, 1) or
// successes > n.
#pragma once

#include <cstdint>

namespace bitrift::analyze {

struct Interval {
  double low = 0;
  double high = 1;
};

/// Wilson's score interval (Wilson 1927). For one look at a fixed n. n = 0 gives [0, 1].
[[nodiscard]] Interval wilson(double successes, double n, double confidence);
/// Clopper and Pearson 1934, exact for a fixed n.
[[nodiscard]] Interval clopper_pearson(std::uint64_t successes, std::uint64_t n, double confidence);
/// The same beta quantiles at numbers that need not be whole: an effective number of trials.
[[nodiscard]] Interval clopper_pearson_of(double successes, double n, double confidence);
/// Valid at every look at once, draws with replacement or from an unbounded population: all p whose
/// beta-binomial mixture likelihood ratio (uniform prior) is below 1/alpha (Howard et al., arXiv 1810.08240;
/// Robbins 1970).
[[nodiscard]] Interval anytime(std::uint64_t successes, std::uint64_t n, double confidence);
/// Valid at every look at once, draws without replacement from `population`: the prior-posterior-ratio
/// martingale with a uniform (beta-binomial) prior over the number of successes (Waudby-Smith and Ramdas,
/// arXiv 2006.04347, section 2). At n = population the interval is the single true rate.
[[nodiscard]] Interval anytime_finite(std::uint64_t successes, std::uint64_t n, std::uint64_t population,
                                      double confidence);

/// Half the width of Student's t interval of a mean whose standard error was estimated with this many degrees
/// of freedom ("Student" 1908). Infinite without a degree of freedom.
[[nodiscard]] double student_t_margin(double standard_error, std::uint64_t degrees, double confidence);
/// Student's t interval of a mean whose standard error was estimated with this many degrees of freedom,
/// clamped to [0, 1] ("Student" 1908). [0, 1] without a degree of freedom.
[[nodiscard]] Interval student_t(double mean, double standard_error, std::uint64_t degrees,
                                 double confidence);

/// The interval, extended to `estimate` if that is outside.
[[nodiscard]] Interval stretched_to(double estimate, const Interval& interval);
/// The interval of a total: a share `weight` of it has this one, and nothing is known about the rest.
[[nodiscard]] Interval with_unknown_rest(double weight, const Interval& interval);
/// The confidence of each of `number` intervals that all hold together with `confidence` (Bonferroni).
[[nodiscard]] double each_of(double number, double confidence);

}  // namespace bitrift::analyze
