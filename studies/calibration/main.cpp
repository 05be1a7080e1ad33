// How often the gate, comparisons and the harmful rate are wrong when each campaign has clean and golden runs
// of its own. Run by hand; docs/statistics.md has what it printed. DIR: finished campaigns, whose effects of
// faults are used.
//
// study_calibration gate PAIRS FOLLOWING DIR...     gates that fail although nothing changed, by world
// study_calibration power PAIRS FOLLOWING DIR...    gates that find 5 and 2 points more harm, at 450 trials
// study_calibration compare PAIRS FOLLOWING DIR...  campaigns, and arms, that differ although nothing does
// study_calibration harmful CAMPAIGNS               ends of `harmful` on the wrong side of the truth
#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <boost/math/distributions/beta.hpp>
#include <fmt/format.h>

#include "analyze/across/gate.h"
#include "analyze/across/one_limit.h"
#include "analyze/summary.h"
#include "core/error.h"
#include "core/philox.h"
#include "studies/calibration/simulated_arm.h"

namespace bitrift::study {
namespace {

/// "37 of 1500, 2.5 %, at most 3.4 %": two-sided, 95 %, Clopper and Pearson.
std::string share(int hits, int runs) {
  const double high =
      hits >= runs
          ? 1
          : boost::math::quantile(boost::math::beta_distribution<double>(hits + 1.0, runs - hits), 0.975);
  return fmt::format("{:4d} of {}, {:5.2f} %, at most {:5.2f} %", hits, runs, 100.0 * hits / runs,
                     100 * high);
}

/// Seeds of the runs and of the faults of both campaigns of a pair.
struct Seeds {
  std::uint64_t runs[2];
  std::uint64_t faults[2];
};
Seeds seeds_of(int pair, bool same_faults) {
  const auto key = derive_key(static_cast<std::uint64_t>(pair), "pair");
  Seeds seeds{{random_u64(key, 0, 0), random_u64(key, 1, 0)}, {random_u64(key, 2, 0), random_u64(key, 3, 0)}};
  if (same_faults) seeds.faults[1] = seeds.faults[0];
  return seeds;
}

/// A campaign whose clean runs contradict the stated level (one in a thousand does by chance) fails a gate,
/// too.
bool gate_fails(SimulatedCampaigns& campaigns, const Seeds& seeds, double harmed) try {
  (void)campaigns.rows(seeds.runs[0], seeds.faults[0]);
  const analyze::Sample baseline = campaigns.sample();
  (void)campaigns.rows(seeds.runs[1], seeds.faults[1], harmed);
  const analyze::Sample current = campaigns.sample();
  return analyze::gate(baseline, current, {}).verdict() == analyze::GateVerdict::worse;
} catch (const Error& error) {
  if (error.code() != ErrorCode::conflict) throw;
  return true;
}

int failing_gates(const World& world, int pairs, bool same_faults, double harmed) {
  SimulatedCampaigns campaigns(world);
  int failed = 0;
  for (int pair = 0; pair < pairs; ++pair)
    failed += gate_fails(campaigns, seeds_of(pair, same_faults), harmed) ? 1 : 0;
  return failed;
}

/// Whose effects of faults, and how trials follow their golden run.
struct Source {
  std::string folder;
  std::vector<Following> following;
};

template <typename Use>
void for_each_world(const Source& source, const Use& use) {
  World world;
  world.strata = measured_effects(source.folder);
  for (const Following following : source.following) {
    for (const CleanScores scores : {CleanScores::normal, CleanScores::student, CleanScores::skewed}) {
      for (const int orders : {1, 3}) {
        world.following = following;
        world.scores = scores;
        world.orders = orders;
        use(world, fmt::format("{}, {}, {} order{}", name_of(following), name_of(scores), orders,
                               orders == 1 ? "" : "s"));
      }
    }
  }
}

void gate_level(int pairs, const Source& source) {
  for_each_world(source, [&](World world, const std::string& name) {
    for (const std::uint64_t draws : {40U, 150U, 500U}) {
      world.draws = draws;
      for (const bool same : {true, false}) {
        fmt::print("{}, {} draws, {} faults: {}\n", name, draws, same ? "same" : "other",
                   share(failing_gates(world, pairs, same, 0), pairs));
        std::fflush(stdout);
      }
    }
  });
}

void gate_power(int pairs, const Source& source) {
  for_each_world(source, [&](const World& world, const std::string& name) {
    for (const double harmed : {0.05, 0.02}) {
      for (const bool same : {true, false}) {
        fmt::print("{}, +{:g} points, {} faults: {:.1f} % found\n", name, 100 * harmed,
                   same ? "same" : "other", 100.0 * failing_gates(world, pairs, same, harmed) / pairs);
        std::fflush(stdout);
      }
    }
  });
}

// Two lines, SDC and crash: some adjusted p-value is at most 5 % if an interval of 97.5 % leaves out 0.
bool differs(const analyze::Interval& interval) { return interval.low > 0 || interval.high < 0; }
constexpr double kEach = 1 - 0.05 / 2;
constexpr std::array kOutcomes = {record::OutcomeClass::sdc, record::OutcomeClass::crash};

bool sides_differ(const analyze::Side& one, const analyze::Side& other,
                  std::optional<analyze::ComparisonKind> kind = {}) {
  const analyze::OneLimit limit = analyze::one_limit(one, other, 0.05 * analyze::range_share);
  return std::any_of(kOutcomes.begin(), kOutcomes.end(), [&](record::OutcomeClass outcome) {
    return differs(analyze::LimitedDifference(one, other, limit, outcome, {}, kind).interval(kEach));
  });
}

bool campaigns_differ(SimulatedCampaigns& campaigns, const Seeds& seeds) try {
  (void)campaigns.rows(seeds.runs[0], seeds.faults[0]);
  const analyze::Sample first = campaigns.sample();
  (void)campaigns.rows(seeds.runs[1], seeds.faults[1]);
  const analyze::Sample second = campaigns.sample();
  return sides_differ({&first, "serial"}, {&second, "serial"});
} catch (const Error& error) {
  if (error.code() != ErrorCode::conflict) throw;
  return false;  // no verdict
}

// As compare_arms() does.
bool arms_differ(SimulatedCampaigns& campaigns, const Seeds& seeds) try {
  (void)campaigns.rows(seeds.runs[0], seeds.faults[0]);
  const analyze::Sample sample = campaigns.sample();
  return sides_differ({&sample, "one"}, {&sample, "other"}, analyze::ComparisonKind::paired);
} catch (const Error& error) {
  if (error.code() != ErrorCode::conflict) throw;
  return false;  // no verdict
}

void comparisons(int pairs, const Source& source) {
  for_each_world(source, [&](World world, const std::string& name) {
    for (const bool same : {true, false}) {
      SimulatedCampaigns campaigns(world);
      int found = 0;
      for (int pair = 0; pair < pairs; ++pair)
        found += campaigns_differ(campaigns, seeds_of(pair, same)) ? 1 : 0;
      fmt::print("campaigns, {}, {} faults: {}\n", name, same ? "same" : "other", share(found, pairs));
    }
    world.arms = {"one", "other"};
    SimulatedCampaigns campaigns(world);
    int found = 0;
    for (int pair = 0; pair < pairs; ++pair) found += arms_differ(campaigns, seeds_of(pair, true)) ? 1 : 0;
    fmt::print("arms, {}: {}\n", name, share(found, pairs));
    std::fflush(stdout);
  });
}

/// A world in which scores of faults are N(mean, deviation), in units of clean runs, and the truth is known.
void harmful_ends(int campaigns, double mean, double deviation, int envelope) {
  World world;
  world.envelope = envelope;
  Effects effects;
  double harmful = 0;
  constexpr int kFaults = 10'000;
  for (int i = 0; i < kFaults; ++i) {
    const double u = (i + 0.5) / kFaults;
    const double score = mean + deviation * std::sqrt(2.0) * boost::math::erf_inv(2 * u - 1);
    effects.push_back({score / true_limit(CleanScores::normal)});
    harmful += score > true_limit(CleanScores::normal) ? 1.0 / kFaults : 0;
  }
  world.strata = {effects, effects, effects};
  world.varies = 0;
  world.golden_zero = true;
  SimulatedCampaigns simulated(world);
  int low = 0;
  int high = 0;
  for (int i = 0; i < campaigns; ++i) {
    const Seeds seeds = seeds_of(i, true);
    const auto& rows = simulated.rows(seeds.runs[0], seeds.faults[0]);
    for (const analyze::Group& group : analyze::summarize(rows, simulated.spec(), {}).groups) {
      low += group.harmful->low > harmful ? 1 : 0;
      high += group.harmful->high < harmful ? 1 : 0;
    }
  }
  fmt::print(
      "scores N({:g}, {:g}), {} envelope runs, truth {:.1f} %: low end above in {}; high end below in {}\n",
      mean, deviation, envelope, 100 * harmful, share(low, campaigns), share(high, campaigns));
  std::fflush(stdout);
}

int run(const std::string& mode, int count, const std::vector<std::string>& words) {
  if (mode == "harmful") {
    for (const int envelope : {99, 499}) {
      for (const auto& [mean, deviation] : {std::pair(2.2, 0.0), std::pair(1.9, 0.2), std::pair(2.4, 0.2)})
        harmful_ends(count, mean, deviation, envelope);
    }
    return 0;
  }
  Source source;
  if (words.front() == "all")
    source.following = {Following::rigid, Following::chaotic, Following::stray};
  else
    source.following = {parse_named<Following>(words.front())};
  for (std::size_t i = 1; i < words.size(); ++i) {
    source.folder = words[i];
    fmt::print("effects of {}\n", source.folder);
    if (mode == "gate") gate_level(count, source);
    if (mode == "power") gate_power(count, source);
    if (mode == "compare") comparisons(count, source);
  }
  return 0;
}

}  // namespace
}  // namespace bitrift::study

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string mode = words.empty() ? "" : words[0];
  const bool known =
      mode == "harmful" || ((mode == "gate" || mode == "power" || mode == "compare") && words.size() > 3);
  const int count = words.size() > 1 ? std::atoi(words[1].c_str()) : 0;
  if (!known || count < 1) {
    fmt::print(stderr,
               "usage: study_calibration gate|power|compare PAIRS all|rigid|chaotic|stray DIR... | harmful "
               "CAMPAIGNS\n");
    return 2;
  }
  try {
    return bitrift::study::run(mode, count, {words.begin() + 2, words.end()});
  } catch (const bitrift::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  }
}
