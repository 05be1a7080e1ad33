// The vulnerability map: how harmful a flip is, by layer and bit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyze/summary.h"

namespace bitrift::analyze {

/// All bits of one number in the tensors of one layer: those of its parameters, or those of their optimizer
/// slots.
struct MapCell {
  std::map<std::string, std::string>
      map;  ///< which map: {"arm", "state"}, and "base" where there are several
  std::string layer;
  unsigned bit = 0;
  std::optional<double> estimate;  ///< absent without a trial
  Interval interval;               ///< the whole range 0 to 1 if there is no trial
  std::uint64_t count = 0;         ///< how many of the n trials were harmed
  std::uint64_t n = 0;
  std::uint64_t bits = 0;  ///< population
};

struct VulnerabilityMap {
  RateOf what = RateOf::harmed;
  IntervalKind kind = IntervalKind::anytime;
  double confidence = 0;       ///< of every interval alone
  std::vector<MapCell> cells;  ///< one map after another; layers in network order, bits from high to low
};

/// The dimensions of its summary, which must have groups without a trial, too (SummaryOptions::untried).
[[nodiscard]] std::vector<std::string> map_dimensions();
/// summary: by map_dimensions().
[[nodiscard]] VulnerabilityMap map_view(const Summary& summary, RateOf what);

/// One character for each cell, and the cells that are worst by the lower end of their intervals.
[[nodiscard]] std::string map_table(const VulnerabilityMap& map);
/// {"view", "outcome", "interval", "confidence", "cells": [{"arm", "state", "layer", "bit", "estimate",
/// "low", "high", "count", "n", "bits"}]}
[[nodiscard]] record::Json to_json(const VulnerabilityMap& map);

}  // namespace bitrift::analyze
