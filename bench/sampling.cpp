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
// bench_sampling bias [REPETITIONS]              relative bias of the rates of campaigns that stopped at +-2
// and at +-1 point:
//                                                of sum_h w_h k_h / n_h and of the estimate in use
// bench_sampling paired [REPETITIONS]            how often a comparison of equal arms is wrong, and how often
// one of
//                                                arms five points apart finds it
// bench_sampling live [ROWS]                     what the rates shown on the way cost, asked for at every row
// bench_sampling speed [ROWS]                    seconds of a plan over so many rows
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "analyze/allocate.h"
#include "analyze/rates/total_interval.h"
#include "analyze/summary.h"
#include "campaign/folder/folder.h"
#include "campaign/journal/journal.h"
#include "campaign/progress/running_rates.h"
#include "core/error.h"
#include "design/kind/bit_strata.h"
#include "sampling_across.h"
#include "sampling_bias.h"
#include "sampling_paired.h"
#include "simulated.h"

namespace bitrift {
namespace {

using record::OutcomeClass;
using record::Reason;

/// Means over campaigns that differ by their seed.
struct Mean {
  double trials = 0, rounds = 0;
};

Mean mean_of(design::CampaignSpec spec, const std::string& allocation, int repetitions) {
  Mean mean;
  spec.sampling->allocation = parse_named<record::Allocation>(allocation);
  for (int i = 0; i < repetitions; ++i) {
    spec.seed = static_cast<std::uint64_t>(i) + 1;
    const Campaign campaign = run(spec, quickstart(), [](const Campaign&) {});
    mean.trials += static_cast<double>(campaign.trials()) / repetitions;
    mean.rounds += static_cast<double>(campaign.rounds.size() - 1) / repetitions;
  }
  return mean;
}

void compare(design::CampaignSpec spec, std::uint64_t pilot, int repetitions) {
  spec.sampling->pilot = pilot;
  const Mean neyman = mean_of(spec, "neyman", repetitions);
  const Mean even = mean_of(spec, "even", repetitions);
  fmt::print(
      "{}, arms {}, pilot {}: neyman {:.0f} ({:.1f} rounds), even {:.0f} ({:.1f} rounds), ratio {:.3f}\n",
      name_of(spec.sampling->target), spec.arms.size(), pilot, neyman.trials, neyman.rounds, even.trials,
      even.rounds, neyman.trials / even.trials);
}

int allocation(int repetitions) {
  fmt::print(
      "trials of one arm until every interval of the target is within +-2 points: mean of {} campaigns\n",
      repetitions);
  for (const std::uint64_t pilot : {20, 10, 5, 4, 3, 2}) {
    compare(spec_of("totals", "neyman", 0.02), pilot, repetitions);
  }
  design::CampaignSpec arms = spec_of("totals", "neyman", 0.02);
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
  const design::CampaignSpec spec = campaign::read_stored_campaign(layout).spec;
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
      design::CampaignSpec spec = spec_of(target, "neyman", 0.02);
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
  design::CampaignSpec spec = spec_of("totals", "neyman", 1e-4);
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

// What the rates shown on the way cost, when they are asked for after every row.
int live(std::uint64_t rows) {
  design::CampaignSpec spec = spec_of("totals", "neyman", 1e-4);
  spec.strata.edit<design::BitStrata>().roles = {"weight", "bias", "momentum"};
  spec.strata.edit<design::BitStrata>().fields = {"sign", "exponent", "mantissa"};
  spec.sampling->max_trials = rows;
  std::vector<Truth> truths = quickstart();
  for (Truth& truth : truths) truth.stratum.bits = std::max(truth.stratum.bits, rows);
  const Campaign campaign = run(spec, truths, [](const Campaign&) {});
  campaign::RunningRates rates(spec, {{"serial", {}}});
  double lines = 0;
  double longest = 0;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<record::Round> rounds;
  for (const record::Round& round : campaign.rounds) {
    rounds.push_back(round);
    rates.set_rounds(rounds);
    for (const record::StratumDraws& cell : round.strata) {
      for (std::uint64_t i = cell.first_draw; i < cell.first_draw + cell.draws; ++i) {
        record::TrialRecord row;
        row.id = {"serial", cell.stratum.name, i};
        row.stratum_bits = cell.stratum.bits;
        row.failure =
            record::Failure{record::FailureReason::signal, "", 11};  // which outcome does not change the cost
        rates.add(row);
        const auto asked = std::chrono::steady_clock::now();
        lines += static_cast<double>(rates.lines().size());
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - asked;
        longest = std::max(longest, spent.count());
      }
    }
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  fmt::print("{} rows in {} rounds, {:.0f} lines: {:.3f} ms a row, the longest {:.3f} s\n", campaign.trials(),
             rounds.size(), lines, 1e3 * spent.count() / static_cast<double>(campaign.trials()), longest);
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
    if (mode == "bias") return bitrift::bias(argc > 2 ? std::atoi(argv[2]) : 10000);
    if (mode == "paired") return bitrift::paired(argc > 2 ? std::atoi(argv[2]) : 2000);
    if (mode == "unpaired") return bitrift::unpaired(argc > 2 ? std::atoi(argv[2]) : 2000);
    if (mode == "gate") return bitrift::gate(argc > 2 ? std::atoi(argv[2]) : 2000);
    if (mode == "live")
      return bitrift::live(argc > 2 ? static_cast<std::uint64_t>(std::atoll(argv[2])) : 10000);
    if (mode == "speed")
      return bitrift::speed(argc > 2 ? static_cast<std::uint64_t>(std::atoll(argv[2])) : 100000);
  } catch (const bitrift::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  }
  fmt::print(stderr,
             "usage: bench_sampling allocation [REPETITIONS] | ground-truth DIR [REPETITIONS] | bias "
             "[REPETITIONS] | paired [REPETITIONS] | unpaired [REPETITIONS] | gate [REPETITIONS] | "
             "live [ROWS] | speed [ROWS]\n");
  return 2;
}
