// Samples made by hand, for the tests that compare two campaigns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyze/across/sample.h"
#include "core/philox.h"
#include "unit/analyze/study.h"

namespace bitrift::analyze::testing {

/// Where the hits of a stratum are: `hits` of the first draws, all SDC.
struct Hits {
  std::uint64_t bits;
  std::uint64_t draws;
  std::uint64_t hits;
};

/// Strata weight.sign and weight.exponent, the same in every arm. faults: equal numbers are equal faults.
inline Sample sample_with(const std::vector<Hits>& strata, std::uint32_t faults = 1,
                          const std::vector<std::string>& arms = {"serial"}) {
  const std::vector<std::string> names = {"weight.sign", "weight.exponent"};
  Sample sample;
  sample.spec = spec_of(arms);
  sample.spec.strata.roles = {"weight"};
  sample.spec.strata.fields = {"sign", "exponent"};
  if (strata.size() == 1) sample.spec.strata.fields = {"sign"};
  sample.spec.trials_per_stratum = strata.front().draws;
  Observations sizes;
  for (const std::string& arm : arms) {
    for (std::size_t h = 0; h < strata.size(); ++h) {
      SampledCell& cell = sample.cells[{arm, names[h]}];
      cell.bits = strata[h].bits;
      cell.outcomes.assign(strata[h].draws, record::OutcomeClass::masked);
      for (std::uint64_t i = 0; i < strata[h].hits; ++i) cell.outcomes[i] = record::OutcomeClass::sdc;
      cell.faults.assign(strata[h].draws, faults);
      sizes.cells[{arm, names[h]}].bits = cell.bits;
    }
  }
  sample.order = order_of(sample.spec, {}, sizes);
  return sample;
}

/// Gives every draw its outcome by chance.
inline void draw_outcomes(Sample& sample, std::uint64_t key, double rate) {
  std::uint64_t stream = 0;
  for (auto& [id, cell] : sample.cells) {
    ++stream;
    for (std::size_t draw = 0; draw < cell.outcomes.size(); ++draw) {
      const bool hit = random_unit(key, draw, stream) < rate;
      cell.outcomes[draw] = hit ? record::OutcomeClass::sdc : record::OutcomeClass::masked;
    }
  }
}

}  // namespace bitrift::analyze::testing
