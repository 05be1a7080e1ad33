// The share of faults that do harm, with what calibration and false alarms leave open.
#pragma once

#include <vector>

#include "analyze/group_rates.h"
#include "analyze/order.h"
#include "analyze/rates/interval.h"

namespace bitrift::analyze {

/// An interval for the share of a line's bits whose flip harms, that is, whose score is beyond the true
/// quantile of clean runs, at the smaller of `analysis.level` and the stated level. Four errors share 1 -
/// confidence (docs/statistics.md, "The harmful rate"):
///   low   (L - f) / (1 - f), at least 0: L the lower end of the SDC rate, f the largest false-SDC rate that
///         held-out and jitter runs do not refute (without such runs: that the calibration allows);
///   high  the upper end of the rate at the lowest limit that the clean runs do not refute.
/// controls: of the line's arm, by Rule::conformal. Holds at every look, given the controls.
[[nodiscard]] Interval harmful_interval(const std::vector<Member>& line, const Order& order,
                                        const ArmControls& controls, const FalseSdc& measured,
                                        double confidence);

}  // namespace bitrift::analyze
