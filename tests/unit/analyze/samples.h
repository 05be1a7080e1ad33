// Samples made by hand, for the tests that compare two campaigns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyze/across/sample.h"
#include "core/philox.h"
#include "design/kind/bit_strata.h"
#include "unit/analyze/study.h"

namespace bitrift::analyze::testing {

/// Where the hits of a stratum are: `hits` of the first draws, all SDC.
struct Hits {
  std::uint64_t bits;
  std::uint64_t draws;
  std::uint64_t hits;
};

/// An arm whose harmless runs equal its golden run, and whose limit is a fall of one point of accuracy.
inline ArmReference rigid_reference() {
  ArmReference reference;
  reference.metrics = {record::Metric::test_accuracy};
  reference.limit = {0.01};
  for (int i = 0; i < 99; ++i) reference.clean.push_back({-0.95 + 0.0001 * i});
  reference.golden = {{-0.95}};
  reference.jitter = {std::vector<MetricValues>(30, MetricValues{0})};
  return reference;
}

/// Strata weight.sign and weight.exponent, the same in every arm; no trial has rises, so that its outcome
/// stays as it is. faults: equal numbers are equal faults.
inline Sample sample_with(const std::vector<Hits>& strata, std::uint32_t faults = 1,
                          const std::vector<std::string>& arms = {"serial"}) {
  const std::vector<std::string> names = {"weight.sign", "weight.exponent"};
  Sample sample;
  sample.spec = spec_of(arms);
  sample.spec.strata.edit<design::BitStrata>().roles = {"weight"};
  sample.spec.strata.edit<design::BitStrata>().fields = {"sign", "exponent"};
  if (strata.size() == 1) sample.spec.strata.edit<design::BitStrata>().fields = {"sign"};
  sample.spec.trials_per_stratum = strata.front().draws;
  Observations sizes;
  for (const std::string& arm : arms) {
    for (std::size_t h = 0; h < strata.size(); ++h) {
      SampledCell& cell = sample.cells[{arm, names[h]}];
      cell.bits = strata[h].bits;
      cell.outcomes.assign(strata[h].draws, record::OutcomeClass::masked);
      for (std::uint64_t i = 0; i < strata[h].hits; ++i) cell.outcomes[i] = record::OutcomeClass::sdc;
      cell.faults.assign(strata[h].draws, faults);
      cell.sizes.assign(strata[h].draws, no_size);
      cell.rises.resize(strata[h].draws);
      sizes.cells[{arm, names[h]}].bits = cell.bits;
    }
  }
  sample.order = order_of(sample.spec, {}, sizes);
  for (const std::string& arm : arms) sample.references[arm] = rigid_reference();
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
