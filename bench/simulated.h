// Campaigns that sample by rounds, simulated: with the planner that campaigns use, on faults of known
// outcomes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyze/allocate.h"
#include "core/permutation.h"
#include "core/philox.h"

namespace bitrift {

using record::OutcomeClass;
using record::Reason;

/// A stratum whose faults all have known outcomes: `rates` of SDC and crash, or outcomes read from rows.
struct Truth {
  record::Stratum stratum;
  double sdc = 0, crash = 0;
  std::vector<Reason> outcomes;  ///< by fault; empty: drawn by the rates
};

// Sizes: LeNet with momentum in float32. Rates: of 100 trials a stratum, one epoch after altering epoch 10
// (seed 20260101, arm serial).
inline const std::vector<Truth>& quickstart() {
  static const auto of = [](const char* role, const char* field, std::uint64_t bits, double sdc,
                            double crash) {
    return Truth{{std::string(role) + "." + field, role, field, bits}, sdc, crash, {}};
  };
  static const std::vector<Truth> strata = {
      of("weight", "sign", 21150, 0, 0),       of("weight", "exponent", 169200, 0.01, 0.08),
      of("weight", "mantissa", 486450, 0, 0),  of("bias", "sign", 236, 0, 0),
      of("bias", "exponent", 1888, 0, 0.1),    of("bias", "mantissa", 5428, 0, 0),
      of("momentum", "sign", 21386, 0, 0),     of("momentum", "exponent", 171088, 0, 0.05),
      of("momentum", "mantissa", 491878, 0, 0)};
  return strata;
}

// The outcome of draw d of a stratum in the campaign of this seed.
class Replay {
 public:
  Replay(const std::vector<Truth>& strata, std::uint64_t seed) : strata_(strata) {
    for (const Truth& truth : strata) {
      keys_.push_back(derive_key(seed, "outcome/" + truth.stratum.name));
      order_.emplace_back(truth.stratum.bits, derive_key(seed, "stratum/" + truth.stratum.name));
    }
  }
  // Arms differ by chance alone where outcomes are drawn by rates.
  [[nodiscard]] Reason outcome(std::size_t h, std::uint64_t draw, std::uint64_t arm) const {
    const Truth& truth = strata_[h];
    if (!truth.outcomes.empty()) return truth.outcomes[order_[h](draw)];
    const double at = random_unit(keys_[h], draw, arm);
    return at < truth.sdc                 ? Reason::low_test_accuracy
           : at < truth.sdc + truth.crash ? Reason::nonfinite
                                          : Reason::bitwise;
  }

 private:
  const std::vector<Truth>& strata_;
  std::vector<std::uint64_t> keys_;
  std::vector<Permutation> order_;
};

inline design::CampaignSpec spec_of(const std::string& target, const std::string& allocation,
                                    double half_width) {
  design::CampaignSpec spec;
  spec.arms = {{"serial", {}}};
  spec.sampling.emplace();
  spec.sampling->target = parse_named<record::SamplingTarget>(target);
  spec.sampling->allocation = parse_named<record::Allocation>(allocation);
  spec.sampling->half_width = half_width;
  return spec;
}

/// A campaign from its first round to its stop.
struct Campaign {
  std::vector<record::Round> rounds;
  analyze::Observations seen;
  [[nodiscard]] std::uint64_t trials() const {
    std::uint64_t sum = 0;
    for (const record::Round& round : rounds) sum += round.draws();
    return sum;
  }
};

// look: called at every barrier.
template <typename Look>
Campaign run(const design::CampaignSpec& spec, const std::vector<Truth>& truths, Look look) {
  std::vector<record::Stratum> strata;
  for (const Truth& truth : truths) strata.push_back(truth.stratum);
  const Replay replay(truths, spec.seed);
  Campaign campaign;
  while (true) {
    campaign.rounds.push_back(analyze::next_round(spec, strata, campaign.rounds, campaign.seen));
    const record::Round& round = campaign.rounds.back();
    if (round.stop) return campaign;
    for (std::size_t arm = 0; arm < spec.arms.size(); ++arm) {
      for (std::size_t h = 0; h < strata.size(); ++h) {
        analyze::StratumSeen& cell = campaign.seen.cells[{spec.arms[arm].name, strata[h].name}];
        cell.bits = strata[h].bits;
        for (std::uint64_t i = 0; i < round.strata[h].draws; ++i) {
          cell.outcomes.push_back(replay.outcome(h, cell.trials(), arm));
        }
      }
    }
    look(campaign);
  }
}

}  // namespace bitrift
