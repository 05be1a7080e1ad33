#include "analyze/allocate.h"

#include <algorithm>
#include <tuple>

#include <gmock/gmock.h>

#include "core/error.h"

namespace bitrift::analyze::allocate_test {
namespace {

using record::Reason;
using record::Round;
using ::testing::ElementsAre;

const std::vector<record::Stratum> kStrata = {{"weight.sign", "weight", "sign", 1000},
                                              {"weight.exponent", "weight", "exponent", 8000},
                                              {"bias.sign", "bias", "sign", 12}};

design::CampaignSpec spec_with(record::SamplingTarget target = record::SamplingTarget::totals) {
  design::CampaignSpec spec;
  spec.seed = 3;
  spec.arms = {{"serial", {}}, {"data-2", {}}};
  spec.sampling.emplace();
  spec.sampling->target = target;
  spec.sampling->half_width = 0.05;
  spec.sampling->pilot = 20;
  return spec;
}

// Rows of both arms for all draws so far; every `every[h]`-th crashes.
Observations rows_of(const std::vector<Round>& rounds, const std::vector<std::uint64_t>& every) {
  Observations seen;
  for (const char* arm : {"serial", "data-2"}) {
    for (std::size_t h = 0; h < kStrata.size(); ++h) {
      StratumSeen& cell = seen.cells[{arm, kStrata[h].name}];
      cell.bits = kStrata[h].bits;
      const auto& last = rounds.back().strata[h];
      for (std::uint64_t i = 0; i < last.first_draw + last.draws; ++i) {
        cell.outcomes.push_back(i % every[h] == every[h] - 1 ? Reason::nonfinite : Reason::bitwise);
      }
    }
  }
  return seen;
}

std::vector<Round> run_to_stop(const design::CampaignSpec& spec, const std::vector<std::uint64_t>& every) {
  std::vector<Round> rounds;
  Observations seen;
  do {
    rounds.push_back(next_round(spec, kStrata, rounds, seen));
    if (!rounds.back().stop) seen = rows_of(rounds, every);
  } while (!rounds.back().stop);
  return rounds;
}

TEST(Apportion, SharesOutByDemandWithinCapacity) {
  EXPECT_THAT(apportion(10, {1, 1, 2}, {100, 100, 100}), ElementsAre(3, 2, 5));
  EXPECT_THAT(apportion(10, {1, 0, 1}, {100, 100, 2}), ElementsAre(8, 0, 2));
  EXPECT_THAT(apportion(10, {1, 1}, {3, 4}), ElementsAre(3, 4));
  EXPECT_THAT(apportion(0, {1, 1}, {3, 4}), ElementsAre(0, 0));
  EXPECT_THAT(apportion(1, {1, 1}, {3, 4}), ElementsAre(1, 0));
}

TEST(NextRound, TheFirstIsThePilotOrAStratumThatIsSmaller) {
  const Round round = next_round(spec_with(), kStrata, {}, {});
  EXPECT_EQ(round.number, 0U);
  EXPECT_EQ(round.picks, 0U);
  EXPECT_THAT(round.arms, ElementsAre("serial", "data-2"));
  EXPECT_EQ(round.strata[0].draws, 20U);
  EXPECT_EQ(round.strata[2].draws, 12U);
  EXPECT_EQ(round.draws(), 52U);
}

TEST(NextRound, WithoutATargetThePlanIsOneRound) {
  design::CampaignSpec spec = spec_with();
  spec.sampling.reset();
  spec.trials_per_stratum = 7;
  const Round first = next_round(spec, kStrata, {}, {});
  EXPECT_EQ(first.draws(), 21U);
  EXPECT_EQ(next_round(spec, kStrata, {first}, {}).stop, record::Stop::plan);
}

TEST(NextRound, ExhaustiveDrawsEveryBitUpToALimit) {
  design::CampaignSpec spec = spec_with();
  spec.sampling.reset();
  spec.exhaustive = true;
  EXPECT_EQ(next_round(spec, kStrata, {}, {}).draws(), 9012U);
  auto large = kStrata;
  large[1].bits = largest_exhaustive;
  try {
    (void)next_round(spec, large, {}, {});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("1001012 faults"));
  }
}

TEST(NextRound, GoesOnWhereTheStrataStoppedAndLeavesOutTheExhausted) {
  const design::CampaignSpec spec = spec_with();
  const std::vector<Round> first = {next_round(spec, kStrata, {}, {})};
  const Round second = next_round(spec, kStrata, first, rows_of(first, {2, 2, 2}));
  EXPECT_EQ(second.stop, std::nullopt);
  EXPECT_EQ(second.strata[0].first_draw, 20U);
  EXPECT_EQ(second.strata[2].draws, 0U);
  EXPECT_EQ(second.strata[2].share, 0U);
  EXPECT_EQ(second.draws(), second.picks);
  // Eight times the size at the same deviation: most draws.
  EXPECT_GT(second.strata[1].draws, 4 * second.strata[0].draws);
  EXPECT_GE(second.strata[0].share, 1U);
  EXPECT_EQ(second.reached.size(), 6U);
}

// Before outcomes tell, exponents are suspected; outcomes overrule that, whichever of hit and miss is rarer.
TEST(NextRound, GoesWhereOutcomesVary) {
  const std::vector<record::Stratum> alike = {{"w.sign", "w", "sign", 100000},
                                              {"w.exponent", "w", "exponent", 100000},
                                              {"w.mantissa", "w", "mantissa", 100000}};
  design::CampaignSpec spec = spec_with();
  spec.arms = {{"serial", {}}};
  spec.sampling->half_width = 0.001;
  for (const auto& [draws, rare, expected] : std::vector<std::tuple<int, std::vector<int>, int>>{
           {2, {0, 0, 0}, 1}, {400, {0, 0, 100}, 2}, {400, {0, 0, 300}, 2}, {400, {200, 100, 0}, 0}}) {
    spec.sampling->pilot = static_cast<std::uint64_t>(draws);
    const std::vector<Round> first = {next_round(spec, alike, {}, {})};
    Observations seen;
    for (std::size_t h = 0; h < alike.size(); ++h) {
      StratumSeen& cell = seen.cells[{"serial", alike[h].name}];
      cell.bits = alike[h].bits;
      for (int i = 0; i < draws; ++i) {
        cell.outcomes.push_back(i < rare[h] ? Reason::nonfinite : Reason::bitwise);
      }
    }
    const Round second = next_round(spec, alike, first, seen);
    const auto most = std::max_element(second.strata.begin(), second.strata.end(),
                                       [](const auto& a, const auto& b) { return a.share < b.share; });
    EXPECT_EQ(most - second.strata.begin(), expected) << draws << " draws";
    for (const auto& cell : second.strata) EXPECT_GT(cell.share, 0U);
  }
}

TEST(NextRound, LaterRowsChangeNothing) {
  const design::CampaignSpec spec = spec_with();
  const std::vector<Round> first = {next_round(spec, kStrata, {}, {})};
  const Observations seen = rows_of(first, {3, 2, 2});
  Observations more = seen;
  for (auto& [id, cell] : more.cells) {
    if (cell.bits > 100) cell.outcomes.insert(cell.outcomes.end(), 30, Reason::nonfinite);
  }
  EXPECT_EQ(to_json(next_round(spec, kStrata, first, seen)), to_json(next_round(spec, kStrata, first, more)));
}

TEST(NextRound, MissingRowsOfEarlierRoundsAreRefused) {
  const design::CampaignSpec spec = spec_with();
  const std::vector<Round> first = {next_round(spec, kStrata, {}, {})};
  Observations seen = rows_of(first, {3, 2, 2});
  seen.cells.at({"data-2", "weight.sign"}).outcomes.pop_back();
  EXPECT_THROW((void)next_round(spec, kStrata, first, seen), Error);
}

TEST(NextRound, StopsWhenTheTargetIsReachedAndSaysHowFarItCame) {
  for (const auto target : {record::SamplingTarget::totals, record::SamplingTarget::strata}) {
    const auto rounds = run_to_stop(spec_with(target), {2, 4, 3});
    EXPECT_EQ(rounds.back().stop, record::Stop::half_width) << name_of(target);
    EXPECT_LE(rounds.back().widest()->half_width, 0.05);
    EXPECT_GT(rounds[rounds.size() - 2].widest()->half_width, 0.05);
    EXPECT_EQ(rounds.back().draws(), 0U);
    EXPECT_EQ(rounds.back().widest()->stratum.empty(), target == record::SamplingTarget::totals);
  }
}

TEST(NextRound, NeverPassesTheBudget) {
  for (const auto target : {record::SamplingTarget::totals, record::SamplingTarget::strata}) {
    design::CampaignSpec spec = spec_with(target);
    spec.sampling->max_trials = 301;
    const auto rounds = run_to_stop(spec, {2, 4, 3});
    EXPECT_EQ(rounds.back().stop, record::Stop::max_trials);
    std::uint64_t draws = 0;
    for (const Round& round : rounds) draws += round.draws();
    EXPECT_EQ(draws, 150U);  // times two arms
  }
}

TEST(NextRound, SmallPopulationsAreExhausted) {
  design::CampaignSpec spec = spec_with(record::SamplingTarget::strata);
  spec.sampling->half_width = 1e-7;
  const auto rounds = run_to_stop(spec, {2, 4, 3});
  EXPECT_EQ(rounds.back().stop, record::Stop::exhausted);
  EXPECT_EQ(rounds.back().strata[1].first_draw, 8000U);
}

TEST(Round, ComesBackFromItsFile) {
  const auto rounds = run_to_stop(spec_with(), {2, 4, 3});
  for (const Round& round : rounds) {
    EXPECT_EQ(to_json(record::round_from_json(to_json(round))), to_json(round));
  }
  EXPECT_THROW((void)record::round_from_json(record::Json::object()), Error);
}

}  // namespace
}  // namespace bitrift::analyze::allocate_test
