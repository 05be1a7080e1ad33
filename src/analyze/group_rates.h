// The rates of one line of the table, and their intervals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/observations.h"
#include "analyze/order.h"
#include "analyze/rates/interval.h"
#include "analyze/rates/stratum_part.h"
#include "core/named_enum.h"
#include "record/outcome.h"

namespace bitrift::analyze {

/// The interval that is shown. anytime holds at every look; all others are for one look at a number of trials
/// that was fixed in advance.
enum class IntervalKind { anytime, wilson, clopper_pearson };
constexpr EnumNames<3> names_of(IntervalKind) {
  return {"interval", {"anytime", "wilson", "clopper_pearson"}};
}
/// The kind with this name. Throws Error(bad_input) for any other word.
[[nodiscard]] IntervalKind interval_kind(std::string_view name);

/// Rate of one outcome class over uniformly drawn bits of a line's strata (docs/statistics.md, "Estimates").
struct Rate {
  double estimate = 0;       ///< total_estimate(); inside every interval
  Interval anytime;          ///< anytime_finite; total_interval if there are several strata
  Interval wilson;           ///< for several strata with an effective number of trials; approximate
  Interval clopper_pearson;  ///< the same
  [[nodiscard]] const Interval& interval(IntervalKind kind) const noexcept;
};

/// The subject of a rate: an outcome class, or harmed: SDC or crash, whichever.
enum class RateOf { masked, sdc, crash, harmed };
constexpr EnumNames<4> names_of(RateOf) { return {"rate", {"masked", "SDC", "crash", "harmed"}}; }
/// The rates of a line. harmed is everything that is not masked.
[[nodiscard]] Rate rate_of(const std::map<record::OutcomeClass, Rate>& rates, RateOf what);

/// A stratum of a line, or a part of a stratum.
struct Member {
  const StratumSeen* seen = nullptr;  ///< nullptr: no row
  std::size_t position = 0;           ///< in Order
  /// For a part of a stratum, whose `seen` holds only its own draws.
  const Part* part = nullptr;
  std::uint64_t part_bits = 0;  ///< its size
  /// Size of the stratum, or of the part; 0 where it is not known.
  [[nodiscard]] std::uint64_t bits(const Order& order) const {
    if (part != nullptr) return part_bits;
    return trials() > 0 ? seen->bits : order.bits[position];
  }
  [[nodiscard]] std::uint64_t trials() const noexcept { return seen == nullptr ? 0 : seen->trials(); }
};

/// The share of a line's bits in strata that have a trial; 0 where the size of one is not known.
[[nodiscard]] double share_seen(const std::vector<Member>& line, const Order& order);

/// total_interval over the draws of each stratum, of which `hits` says which count (1: counts). Strata
/// without a trial count as anything from 0 to 1.
[[nodiscard]] Interval anytime_of(const std::vector<Member>& line, const Order& order, double confidence,
                                  const std::function<std::vector<std::uint8_t>(const StratumSeen&)>& hits);

/// Puts every reason into one of a number of classes, which count from 0.
using Sorting = std::function<std::size_t(record::Reason)>;

/// The rate of each class. The estimates are over the strata that have a trial, at least one; in the
/// intervals, strata without a trial count as anything from 0 to 1.
[[nodiscard]] std::vector<Rate> rates_by(const std::vector<Member>& line, const Order& order,
                                         double confidence, std::size_t classes, const Sorting& class_of);
/// The same for masked, SDC and crash.
[[nodiscard]] std::map<record::OutcomeClass, Rate> group_rates(const std::vector<Member>& line,
                                                               const Order& order, double confidence);

}  // namespace bitrift::analyze
