// What sampling by rounds costs and whether its intervals hold, with the planner and intervals that campaigns
// use. Run by hand; docs/statistics.md has what it printed.
//
// bench_sampling allocation [REPETITIONS]        trials until +-2 points, Neyman's rule against even,
// simulated on the
//                                                strata of campaigns/quickstart.json with the rates below
// bench_sampling ground-truth DIR [REPETITIONS]  DIR: a finished campaign with `exhaustive: true`. Campaigns
// that sample
//                                                it are replayed from its rows; counts those whose intervals
//                                                all contain the rate of all faults
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

// Sizes: LeNet with momentum in float32. Rates: of 100 trials a stratum, one epoch after altering epoch 10
// (seed 20260101, arm serial).
const std::vector<Truth>& quickstart() {
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
    return at < truth.sdc                 ? Reason::degraded
           : at < truth.sdc + truth.crash ? Reason::nonfinite
                                          : Reason::bitwise;
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

/// Means over campaigns that differ by their seed.
struct Mean {
  double trials = 0, rounds = 0;
};

Mean mean_of(record::CampaignSpec spec, const std::string& allocation, int repetitions) {
  Mean mean;
  spec.sampling->allocation = allocation;
  for (int i = 0; i < repetitions; ++i) {
    spec.seed = static_cast<std::uint64_t>(i) + 1;
    const Campaign campaign = run(spec, quickstart(), [](const Campaign&) {});
    mean.trials += static_cast<double>(campaign.trials()) / repetitions;
    mean.rounds += static_cast<double>(campaign.rounds.size() - 1) / repetitions;
  }
  return mean;
}

void compare(record::CampaignSpec spec, std::uint64_t pilot, int repetitions) {
  spec.sampling->pilot = pilot;
  const Mean neyman = mean_of(spec, "neyman", repetitions);
  const Mean even = mean_of(spec, "even", repetitions);
  fmt::print(
      "{}, arms {}, pilot {}: neyman {:.0f} ({:.1f} rounds), even {:.0f} ({:.1f} rounds), ratio {:.3f}\n",
      spec.sampling->target, spec.arms.size(), pilot, neyman.trials, neyman.rounds, even.trials, even.rounds,
      neyman.trials / even.trials);
}

int allocation(int repetitions) {
  fmt::print(
      "trials of one arm until every interval of the target is within +-2 points: mean of {} campaigns\n",
      repetitions);
  for (const std::uint64_t pilot : {20, 10, 5, 4, 3, 2}) {
    compare(spec_of("totals", "neyman", 0.02), pilot, repetitions);
  }
  record::CampaignSpec arms = spec_of("totals", "neyman", 0.02);
  arms.arms = {{"serial", {}}, {"data-2", {}}, {"pipeline-2", {}}};
  compare(arms, arms.sampling->pilot, repetitions);
  for (const std::uint64_t pilot : {20, 5}) {
    compare(spec_of("strata", "neyman", 0.02), pilot, repetitions);
  }
  return 0;
}

// Every stratum of an exhaustive campaign with the outcomes of all its faults, for one arm.
std::vector<Truth> recorded(const std::string& folder) {
  const campaign::Layout layout{folder};
  const record::CampaignSpec spec = campaign::read_stored_campaign(layout).spec;
  const auto rounds = campaign::read_rounds(layout);
  const auto seen = analyze::observe(campaign::read_journal(layout.journal()).effective(), spec);
  std::vector<Truth> truths;
  for (const record::StratumDraws& cell : rounds.at(0).strata) {
    const auto& outcomes = seen.cells.at({spec.arms.at(0).name, cell.stratum.name}).outcomes;
    if (outcomes.size() != cell.stratum.bits) {
      fail(ErrorCode::bad_input,
           "{}: stratum {} has {} of {} faults: not an exhaustive campaign that is over", folder,
           cell.stratum.name, outcomes.size(), cell.stratum.bits);
    }
    // In the order of the draws of that campaign; each replay shuffles it anew.
    truths.push_back({cell.stratum, 0, 0, outcomes});
  }
  return truths;
}

// Rates of all faults: per stratum, and last the total.
std::vector<double> true_rates(const std::vector<Truth>& truths, OutcomeClass outcome) {
  std::vector<double> rates;
  double hits = 0;
  double bits = 0;
  for (const Truth& truth : truths) {
    const auto count =
        static_cast<double>(std::count_if(truth.outcomes.begin(), truth.outcomes.end(), [&](Reason reason) {
          return record::class_of(reason) == outcome;
        }));
    rates.push_back(count / static_cast<double>(truth.stratum.bits));
    hits += count;
    bits += static_cast<double>(truth.stratum.bits);
  }
  rates.push_back(hits / bits);
  return rates;
}

bool inside(const analyze::Interval& interval, double rate) {
  return interval.low <= rate + 1e-12 && rate <= interval.high + 1e-12;
}

// Bits of `missed`: intervals (3 outcomes x strata and total) that missed at this look.
void look_at(const Campaign& campaign, const std::vector<Truth>& truths, double aim,
             std::vector<char>& missed) {
  const auto rounds = analyze::picked(campaign.rounds);
  std::size_t at = 0;
  for (const OutcomeClass outcome : {OutcomeClass::masked, OutcomeClass::sdc, OutcomeClass::crash}) {
    const std::vector<double> rates = true_rates(truths, outcome);
    std::vector<analyze::StratumHits> hits;
    for (std::size_t h = 0; h < truths.size(); ++h) {
      const auto& cell = campaign.seen.cells.at({"serial", truths[h].stratum.name});
      hits.push_back({cell.bits, cell.hits(outcome), true});
      const auto one = analyze::anytime_finite(cell.count(outcome), cell.trials(), cell.bits, 0.95);
      missed[at] = static_cast<char>(missed[at] != 0 || !inside(one, rates[h]));
      ++at;
    }
    missed[at] = static_cast<char>(missed[at] != 0 ||
                                   !inside(analyze::total_interval(rounds, hits, 0.95, aim), rates.back()));
    ++at;
  }
}

int ground_truth(const std::string& folder, int repetitions) {
  const std::vector<Truth> truths = recorded(folder);
  const std::size_t kinds = 3 * (truths.size() + 1);
  for (const std::string target : {"totals", "strata"}) {
    std::vector<int> misses(kinds, 0);
    double trials = 0;
    const double aim = target == "totals" ? 0.02 : 0;
    for (int i = 0; i < repetitions; ++i) {
      record::CampaignSpec spec = spec_of(target, "neyman", 0.02);
      spec.seed = static_cast<std::uint64_t>(i) + 1;
      std::vector<char> missed(kinds, 0);
      const Campaign campaign =
          run(spec, truths, [&](const Campaign& now) { look_at(now, truths, aim, missed); });
      trials += static_cast<double>(campaign.trials()) / repetitions;
      for (std::size_t k = 0; k < kinds; ++k) misses[k] += missed[k];
    }
    fmt::print(
        "target {}: {} campaigns, {:.0f} trials in the mean; campaigns in which an interval ever missed:\n",
        target, repetitions, trials);
    std::size_t at = 0;
    for (const OutcomeClass outcome : {OutcomeClass::masked, OutcomeClass::sdc, OutcomeClass::crash}) {
      const std::vector<double> rates = true_rates(truths, outcome);
      for (std::size_t h = 0; h <= truths.size(); ++h, ++at) {
        fmt::print("  {:<7} {:<18} rate {:8.4f} %, missed in {} ({:.1f} %)\n", record::outcome_key(outcome),
                   h < truths.size() ? truths[h].stratum.name : "total", 100 * rates[h], misses[at],
                   100.0 * misses[at] / repetitions);
      }
    }
  }
  return 0;
}

int speed(std::uint64_t rows) {
  record::CampaignSpec spec = spec_of("totals", "neyman", 1e-4);
  spec.sampling->pilot = std::max<std::uint64_t>(2, rows / 20);
  std::vector<record::Stratum> strata;
  for (const Truth& truth : quickstart()) {
    strata.push_back(truth.stratum);
    strata.back().bits = std::max(strata.back().bits, rows);
  }
  std::vector<Truth> truths = quickstart();
  for (std::size_t h = 0; h < truths.size(); ++h) truths[h].stratum = strata[h];
  spec.sampling->max_trials = rows;
  const Campaign campaign = run(spec, truths, [](const Campaign&) {});
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<record::Round> earlier(campaign.rounds.begin(), campaign.rounds.end() - 1);
  const record::Round again = analyze::next_round(spec, strata, earlier, campaign.seen);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  fmt::print("next_round over {} rows in {} rounds: {:.3f} s\n", campaign.trials(), again.number,
             spent.count());
  return 0;
}

}  // namespace
}  // namespace bitrift

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "allocation") return bitrift::allocation(argc > 2 ? std::atoi(argv[2]) : 20);
    if (mode == "ground-truth" && argc > 2)
      return bitrift::ground_truth(argv[2], argc > 3 ? std::atoi(argv[3]) : 200);
    if (mode == "speed")
      return bitrift::speed(argc > 2 ? static_cast<std::uint64_t>(std::atoll(argv[2])) : 100000);
  } catch (const bitrift::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  }
  fmt::print(
      stderr,
      "usage: bench_sampling allocation [REPETITIONS] | ground-truth DIR [REPETITIONS] | speed [ROWS]\n");
  return 2;
}
