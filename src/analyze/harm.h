// The share of faults that do harm, and the uncertainty that comes from the calibration.
#pragma once

#include <vector>

#include "analyze/group_rates.h"
#include "analyze/order.h"
#include "analyze/rates/interval.h"

namespace bitrift::analyze {

/// An interval for the share of a line's bits whose flip harms, that is, whose score is beyond the true
/// quantile of clean runs, at the smaller of `analysis.level` and the stated level. Four errors share 1 -
/// confidence (docs/statistics.md, "The harmful rate"):
///   low   the lower end of the rate at the highest limit that the clean runs do not refute; 0 where they are
///         too few to refute any limit;
///   high  the upper end of the rate at the lowest limit that they do not refute.
/// It holds whatever the scores of faults are, and at every look. controls: of the line's arm.
[[nodiscard]] Interval harmful_interval(const std::vector<Member>& line, const Order& order,
                                        const ArmControls& controls, double confidence);

}  // namespace bitrift::analyze
