// Strata of one line of the table whose rates differ by more than their intervals.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyze/group_rates.h"
#include "analyze/order.h"
#include "record/outcome.h"

namespace bitrift::analyze {

/// One stratum of a line, or the part of it that the line covers.
struct StratumRates {
  std::string stratum;
  std::uint64_t trials = 0;
  std::map<record::OutcomeClass, std::uint64_t> counts;
  std::map<record::OutcomeClass, Rate> rates;
};

/// The strata of a line that have a trial, in the order of the spec, if the line's rates hide a difference
/// between them: for some outcome class, the anytime intervals of two strata do not overlap. Otherwise empty.
/// Each interval holds with `confidence` alone. Two of them that do not overlap while the rates are equal
/// need one of the two to miss, so a false split of a line with two strata is no more probable than twice
/// 1 - confidence for each class.
[[nodiscard]] std::vector<StratumRates> strata_apart(const std::vector<Member>& line, const Order& order,
                                                     double confidence);

}  // namespace bitrift::analyze
