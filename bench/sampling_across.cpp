#include "sampling_across.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "analyze/across/difference.h"
#include "analyze/across/gate.h"
#include "core/philox.h"
#include "design/kind/bit_strata.h"

namespace bitrift {
namespace {

using analyze::RateDifference;
using analyze::Sample;
using record::OutcomeClass;

constexpr std::uint64_t kDraws = 500;  // of each of two strata
constexpr std::uint64_t kLooks = 20;
const std::array<std::string, 2> kStrata = {"weight.sign", "weight.exponent"};

/// Harmless runs that equal the golden run: what trials are is not a matter of a limit here.
analyze::ArmReference rigid() {
  analyze::ArmReference reference;
  reference.metrics = {record::Metric::test_accuracy};
  reference.limit = {1};
  reference.clean.assign(99, {0});
  reference.golden = {{0}};
  reference.jitter = {std::vector<analyze::MetricValues>(30, analyze::MetricValues{0})};
  return reference;
}

/// A campaign without outcomes. scale: of the stratum sizes.
Sample campaign(std::size_t arms, std::uint64_t scale) {
  Sample sample;
  sample.spec.name = "simulated";
  sample.spec.seed = 1;
  sample.spec.strata.edit<design::BitStrata>().roles = {"weight"};
  sample.spec.strata.edit<design::BitStrata>().fields = {"sign", "exponent"};
  sample.spec.trials_per_stratum = kDraws;
  for (std::size_t arm = 0; arm < arms; ++arm) {
    sample.spec.arms.push_back({"arm" + std::to_string(arm), {}});
    sample.cells[{sample.spec.arms.back().name, kStrata[0]}].bits = 100'000 * scale;
    sample.cells[{sample.spec.arms.back().name, kStrata[1]}].bits = 800'000 * scale;
    sample.references[sample.spec.arms.back().name] = rigid();
  }
  analyze::Observations sizes;
  for (const auto& [id, cell] : sample.cells) sizes.cells[id].bits = cell.bits;
  sample.order = analyze::order_of(sample.spec, {}, sizes);
  return sample;
}

/// SDC and crash have the same rate. key: two campaigns with one key share their luck: what is harmful at one
/// rate is harmful at every higher one. faults: equal numbers are equal faults.
void fill(Sample& sample, std::uint64_t key, std::uint32_t faults, double rate,
          std::uint64_t draws = kDraws) {
  std::uint64_t stream = 0;
  for (auto& [id, cell] : sample.cells) {
    ++stream;
    cell.outcomes.clear();
    cell.faults.assign(draws, faults);
    cell.sizes.assign(draws, analyze::no_size);
    cell.rises.assign(draws, {});  // outcomes stay as they are
    for (std::uint64_t draw = 0; draw < draws; ++draw) {
      const double luck = random_unit(key, draw, stream);
      cell.outcomes.push_back(luck < rate       ? OutcomeClass::sdc
                              : luck > 1 - rate ? OutcomeClass::crash
                                                : OutcomeClass::masked);
    }
  }
}

struct Found {
  int interval = 0;  ///< campaigns whose interval leaves out 0 at any look
  int fisher = 0;    ///< and whose test at the end has a p of at most 5 %
};

Found found(int repetitions, double first_rate, double second_rate, std::uint64_t scale,
            std::uint64_t looks) {
  Sample first = campaign(1, 1);
  Sample second = campaign(1, scale);
  Found found;
  for (int i = 0; i < repetitions; ++i) {
    bool out = false;
    for (std::uint64_t look = 1; look <= looks; ++look) {
      fill(first, derive_key(static_cast<std::uint64_t>(i), "first"), 1, first_rate, kDraws * look / looks);
      fill(second, derive_key(static_cast<std::uint64_t>(i), "second"), 2, second_rate,
           kDraws * look / looks);
      const RateDifference difference({&first, "arm0"}, {&second, "arm0"}, OutcomeClass::sdc);
      if (!out) {
        const analyze::Interval interval = difference.interval(0.95);
        out = interval.low > 0 || interval.high < 0;
      }
      if (look == looks) found.fisher += difference.exact_p().value_or(1) <= 0.05 ? 1 : 0;
    }
    found.interval += out ? 1 : 0;
  }
  return found;
}

struct Change {
  std::size_t arms;
  bool same_faults, shared_luck;
  double before, after, tolerance;
};

double failed(int repetitions, const Change& change) {
  Sample baseline = campaign(change.arms, 1);
  Sample current = campaign(change.arms, 1);
  analyze::GateRules rules;
  rules.families.front().tolerance = change.tolerance;
  int count = 0;
  for (int i = 0; i < repetitions; ++i) {
    const auto number = static_cast<std::uint64_t>(i);
    fill(baseline, derive_key(number, "first"), 1, change.before);
    fill(current, derive_key(number, change.shared_luck ? "first" : "second"), change.same_faults ? 1 : 2,
         change.after);
    count += analyze::gate(baseline, current, rules).verdict() == analyze::GateVerdict::worse ? 1 : 0;
  }
  return 100.0 * count / repetitions;
}

}  // namespace

int unpaired(int repetitions) {
  fmt::print("{} pairs of campaigns of {} trials, intervals of 95 %\n", repetitions, 2 * kDraws);
  for (const std::uint64_t scale : {1U, 2U}) {
    fmt::print("strata of {} sizes\n", scale == 1 ? "the same" : "other");
    for (const double rate : {0.02, 0.1, 0.4}) {
      const Found out = found(repetitions, rate, rate, scale, kLooks);
      fmt::print(
          "  rates {0:.0f} and {0:.0f} %: {1:.2f} % leave out 0 at any of {2} looks; Fisher {3:.2f} %\n",
          100 * rate, 100.0 * out.interval / repetitions, kLooks, 100.0 * out.fisher / repetitions);
    }
    for (const double rate : {0.05, 0.1}) {
      const Found out = found(repetitions, rate, rate + 0.05, scale, 1);
      fmt::print("  rates {:.0f} and {:.0f} %: {:.1f} % find the difference; Fisher {:.1f} %\n", 100 * rate,
                 100 * rate + 5, 100.0 * out.interval / repetitions, 100.0 * out.fisher / repetitions);
    }
  }
  return 0;
}

int gate(int repetitions) {
  fmt::print("{} gates at 5 %, {} trials an arm; SDC and crash have the same rate\n", repetitions,
             2 * kDraws);
  const Change changes[] = {
      // No increase. Under the same faults outcomes are independent here, which is the worst case.
      {3, true, false, 0.02, 0.02, 0},
      {3, true, false, 0.1, 0.1, 0},
      {3, false, false, 0.02, 0.02, 0},
      {3, false, false, 0.1, 0.1, 0},
      // As large as the tolerance.
      {3, true, true, 0.05, 0.06, 0.01},
      {3, false, false, 0.05, 0.06, 0.01},
      // Five points.
      {1, true, true, 0.05, 0.1, 0},
      {1, true, true, 0.05, 0.1, 0.01},
      {1, true, false, 0.05, 0.1, 0},
      {1, false, false, 0.05, 0.1, 0},
      {1, false, false, 0.1, 0.15, 0},
      {3, false, false, 0.1, 0.15, 0},
      {1, false, false, 0.05, 0.1, 0.01},
  };
  for (const Change& change : changes) {
    fmt::print("{} lines, {} faults, {}, {:.0f} % then {:.0f} %, tolerance {:.0f} points: {:.2f} % fail\n",
               2 * change.arms, change.same_faults ? "the same" : "other",
               change.shared_luck ? "nested" : "independent", 100 * change.before, 100 * change.after,
               100 * change.tolerance, failed(repetitions, change));
  }
  return 0;
}

}  // namespace bitrift
