// What sampling by rounds costs and whether its intervals hold, with the planner and intervals that campaigns
// use. Run by hand; docs/statistics.md has what it printed.
//
// bench_sampling allocation [REPETITIONS]        trials until +-2 points, Neyman's rule against even, simulated on the
//                                                strata of campaigns/quickstart.json with the rates below
// bench_sampling ground-truth DIR [REPETITIONS]  DIR: a finished campaign with `exhaustive: true`. Campaigns that sample
//                                                it are replayed from its rows; counts those whose intervals all
//                                                contain the rate of all faults
// bench_sampling speed [ROWS]                    seconds of a plan over so many rows
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "analyze/allocate.h"
#include "analyze/summary.h"
#include "analyze/total_interval.h"
#include "campaign/folder.h"
#include "campaign/journal.h"
#include "core/error.h"
#include "core/permutation.h"
#include "core/philox.h"

namespace bitrift {
namespace {

using record::OutcomeClass;
using record::Reason;

/// A stratum whose faults all have known outcomes: `rates` of SDC and crash, or outcomes read from rows.
struct Truth {
  record::Stratum stratum;
  double sdc = 0, crash = 0;
  std::vector<Reason> outcomes;  ///< by fault; empty: drawn by the rates
};

// Sizes: LeNet with momentum in float32. Rates: of 100 trials a stratum, one epoch after altering epoch 10 (seed
// 20260101, arm serial).
const std::vector<Truth>& quickstart() {
  static const auto of = [](const char* role, const char* field, std::uint64_t bits, double sdc, double crash) {
    return Truth{{std::string(role) + "." + field, role, field, bits}, sdc, crash, {}};
  };
  static const std::vector<Truth> strata = {
      of("weight", "sign", 21150, 0, 0),       of("weight", "exponent", 169200, 0.01, 0.08),
      of("weight", "mantissa", 486450, 0, 0), of("bias", "sign", 236, 0, 0),
      of("bias", "exponent", 1888, 0, 0.1), of("bias", "mantissa", 5428, 0, 0),
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
  [[nodiscard]] Reason outcome(std::size_t h, std::uint64_t draw) const {
    const Truth& truth = strata_[h];
    if (!truth.outcomes.empty()) return truth.outcomes[order_[h](draw)];
    const double at = random_unit(keys_[h], draw, 0);
    return at < truth.sdc ? Reason::degraded : at < truth.sdc + truth.crash ? Reason::nonfinite : Reason::bitwise;
  }

 private:
  const std::vector<Truth>& strata_;
  std::vector<std::uint64_t> keys_;
  std::vector<Permutation> order_;
};

record::CampaignSpec spec_of(const std::string& target, const std::string& allocation, double half_width) {
  record::CampaignSpec spec;
  spec.arms = {{"serial", {}}};
  spec.sampling.emplace();
  spec.sampling->target = target;
  spec.sampling->allocation = allocation;
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
Campaign run(const record::CampaignSpec& spec, const std::vector<Truth>& truths, Look look) {
  std::vector<record::Stratum> strata;
  for (const Truth& truth : truths) strata.push_back(truth.stratum);
  const Replay replay(truths, spec.seed);
  Campaign campaign;
  while (true) {
    campaign.rounds.push_back(analyze::next_round(spec, strata, campaign.rounds, campaign.seen));
    const record::Round& round = campaign.rounds.back();
    if (!round.stop.empty()) return campaign;
    for (std::size_t h = 0; h < strata.size(); ++h) {
      analyze::StratumSeen& cell = campaign.seen.cells[{"serial", strata[h].name}];
      cell.bits = strata[h].bits;
      for (std::uint64_t i = 0; i < round.strata[h].draws; ++i) {
        cell.outcomes.push_back(replay.outcome(h, cell.trials()));
      }
    }
    look(campaign);
  }
}

int allocation(int repetitions) {
  fmt::print("trials until every interval of the target is within +-2 points: mean of {} campaigns\n", repetitions);
  for (const std::string target : {"totals", "strata"}) {
    double means[2] = {0, 0};
    double rounds[2] = {0, 0};
    for (int i = 0; i < repetitions; ++i) {
      for (const int even : {0, 1}) {
        record::CampaignSpec spec = spec_of(target, even == 1 ? "even" : "neyman", 0.02);
        spec.seed = static_cast<std::uint64_t>(i) + 1;
        const Campaign campaign = run(spec, quickstart(), [](const Campaign&) {});
        means[even] += static_cast<double>(campaign.trials()) / repetitions;
        rounds[even] += static_cast<double>(campaign.rounds.size() - 1) / repetitions;
      }
    }
    fmt::print("{}: neyman {:.0f} ({:.1f} rounds), even {:.0f} ({:.1f} rounds), ratio {:.2f}\n", target, means[0],
               rounds[0], means[1], rounds[1], means[0] / means[1]);
  }
  return 0;
}

}  // namespace
}  // namespace bitrift

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "allocation") return bitrift::allocation(argc > 2 ? std::atoi(argv[2]) : 20);
  } catch (const bitrift::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  }
  fmt::print(stderr, "usage: bench_sampling allocation [REPETITIONS] | ground-truth DIR [REPETITIONS] | speed [ROWS]\n");
  return 2;
}
