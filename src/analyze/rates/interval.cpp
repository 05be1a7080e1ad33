#include "analyze/rates/interval.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/gamma.hpp>

#include "core/error.h"

namespace bitrift::analyze {
namespace {

void check(double successes, double n, double confidence) {
  if (!(confidence > 0 && confidence < 1)) {
    fail(ErrorCode::bad_input, "confidence {}: give a number between 0 and 1, such as 0.95", confidence);
  }
  if (!(successes >= 0 && successes <= n && std::isfinite(n))) {
    fail(ErrorCode::bad_input, "{} successes in {} trials: give 0 to n successes", successes, n);
  }
}

double log_gamma(double x) { return boost::math::lgamma(x); }

// lgamma(x) - ((x - 1/2) ln x - x + ln(2 pi) / 2), for x >= 32: the next term is below 1e-16.
double stirling_rest(double x) {
  const double inverse = 1 / x;
  const double square = inverse * inverse;
  return inverse * (1.0 / 12 - square * (1.0 / 360 - square * (1.0 / 1260 - square / 1680)));
}

// ln(m! / (m - k)!). The difference of two lgamma of 2^40 would keep three decimals only, so their large
// common part is cancelled by hand.
double log_falling(std::uint64_t m, std::uint64_t k) {
  const std::uint64_t rest = m - k;
  if (k <= 32) {
    double sum = 0;
    for (std::uint64_t i = 0; i < k; ++i) sum += std::log(static_cast<double>(m - i));
    return sum;
  }
  const double a = static_cast<double>(m) + 1;
  const double b = static_cast<double>(rest) + 1;
  if (rest < 32) return log_gamma(a) - log_gamma(b);
  const auto delta = static_cast<double>(k);
  return (b - 0.5) * std::log1p(delta / b) + delta * (std::log(a) - 1) + stirling_rest(a) - stirling_rest(b);
}

// ln of the hypergeometric probability of k successes in n draws when `total` of `population` are successes.
double log_hypergeometric(std::uint64_t k, std::uint64_t n, std::uint64_t total, std::uint64_t population) {
  return log_falling(total, k) + log_falling(population - total, n - k) - log_falling(population, n) +
         log_falling(n, k) - log_falling(k, k);
}

}  // namespace

Interval wilson(double successes, double n, double confidence) {
  check(successes, n, confidence);
  if (n == 0) return {};
  const double z =
      boost::math::quantile(boost::math::complement(boost::math::normal(), (1 - confidence) / 2));
  const double p = successes / n;
  const double scale = 1 + z * z / n;
  const double centre = (p + z * z / (2 * n)) / scale;
  const double half = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale;
  // At the ends the bound is 0 or 1 exactly, which rounding would miss.
  return {successes == 0 ? 0 : std::clamp(centre - half, 0.0, p),
          successes == n ? 1 : std::clamp(centre + half, p, 1.0)};
}

Interval clopper_pearson_of(double successes, double n, double confidence) {
  check(successes, n, confidence);
  const double tail = (1 - confidence) / 2;
  return {successes <= 0 ? 0 : boost::math::ibeta_inv(successes, n - successes + 1, tail),
          successes >= n ? 1 : boost::math::ibetac_inv(successes + 1, n - successes, tail)};
}

Interval clopper_pearson(std::uint64_t successes, std::uint64_t n, double confidence) {
  return clopper_pearson_of(static_cast<double>(successes), static_cast<double>(n), confidence);
}

Interval anytime(std::uint64_t successes, std::uint64_t n, double confidence) {
  const auto k = static_cast<double>(successes);
  const auto total = static_cast<double>(n);
  check(k, total, confidence);
  if (n == 0) return {};
  const double threshold =
      std::log1p(-confidence) + log_gamma(k + 1) + log_gamma(total - k + 1) - log_gamma(total + 2);
  const auto inside = [&](double p) {
    const double of_successes = successes == 0 ? 0 : k * std::log(p);
    const double of_failures = successes == n ? 0 : (total - k) * std::log1p(-p);
    return of_successes + of_failures > threshold;
  };
  // The likelihood rises to k/n and falls after it, so each end is found by bisection; the outer point is
  // returned.
  const auto end = [&](double in, double out) {
    for (int i = 0; i < 200; ++i) {
      const double middle = in + (out - in) / 2;
      if (middle == in || middle == out) break;
      (inside(middle) ? in : out) = middle;
    }
    return out;
  };
  const double p = k / total;
  return {successes == 0 ? 0 : end(p, 0), successes == n ? 1 : end(p, 1)};
}

Interval anytime_finite(std::uint64_t successes, std::uint64_t n, std::uint64_t population,
                        double confidence) {
  check(static_cast<double>(successes), static_cast<double>(n), confidence);
  if (n > population || population == 0) {
    fail(ErrorCode::bad_input, "{} draws without replacement from a population of {}", n, population);
  }
  if (population > std::uint64_t{1} << 52) {
    fail(ErrorCode::unsupported, "a population of {}: intervals are computed up to 2^52", population);
  }
  // Prior 1/(N+1) over posterior: (1/(n+1)) / hypergeometric, which stays below 1/alpha inside.
  const double threshold = std::log1p(-confidence) - std::log1p(static_cast<double>(n));
  const auto inside = [&](std::uint64_t total) {
    return log_hypergeometric(successes, n, total, population) > threshold;
  };
  const std::uint64_t least = successes;
  const std::uint64_t most = population - (n - successes);
  // The likelihood's peak is floor(k (N + 1) / n); one next to it is as good, so rounding does no harm.
  const double share = n == 0 ? 0.5 : static_cast<double>(successes) / static_cast<double>(n);
  const auto guess = static_cast<std::uint64_t>(share * (static_cast<double>(population) + 1));
  const std::uint64_t peak = std::clamp(guess, least, most);
  std::uint64_t low = least;  // the smallest total inside: inside(high_in) always holds
  std::uint64_t high_in = peak;
  while (low < high_in) {
    const std::uint64_t middle = low + (high_in - low) / 2;
    if (inside(middle)) {
      high_in = middle;
    } else {
      low = middle + 1;
    }
  }
  std::uint64_t high = most;
  std::uint64_t low_in = peak;
  while (low_in < high) {
    const std::uint64_t middle = high - (high - low_in) / 2;
    if (inside(middle)) {
      low_in = middle;
    } else {
      high = middle - 1;
    }
  }
  const auto size = static_cast<double>(population);
  return {static_cast<double>(low) / size, static_cast<double>(high) / size};
}

double student_t_margin(double standard_error, std::uint64_t degrees, double confidence) {
  check(0, 0, confidence);
  if (degrees == 0) return std::numeric_limits<double>::infinity();
  const boost::math::students_t distribution(static_cast<double>(degrees));
  return boost::math::quantile(distribution, (1 + confidence) / 2) * standard_error;
}

Interval student_t(double mean, double standard_error, std::uint64_t degrees, double confidence) {
  const double margin = student_t_margin(standard_error, degrees, confidence);
  return {std::max(0.0, mean - margin), std::min(1.0, mean + margin)};
}

Interval stretched_to(double estimate, const Interval& interval) {
  return {std::min(interval.low, estimate), std::max(interval.high, estimate)};
}

Interval with_unknown_rest(double weight, const Interval& interval) {
  return {weight * interval.low, std::min(1.0, weight * interval.high + (1 - weight))};
}

double each_of(double number, double confidence) { return 1 - (1 - confidence) / number; }

}  // namespace bitrift::analyze
