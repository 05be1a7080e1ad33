// Rounds, weights and the order of draws in campaigns that were extended.
#include <gmock/gmock.h>

#include "analyze/allocate.h"
#include "analyze/order.h"
#include "design/kind/bit_strata.h"

namespace bitrift::analyze::extended_test {
namespace {

using record::Reason;
using record::Round;
using record::SamplingTarget;
using record::Stop;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Roles x fields in the order of the spec: the later field comes between those that were there.
const std::vector<record::Stratum> kStrata = {{"weight.sign", "weight", "sign", 1000},
                                              {"weight.exponent", "weight", "exponent", 8000},
                                              {"bias.sign", "bias", "sign", 12},
                                              {"bias.exponent", "bias", "exponent", 96}};

design::CampaignSpec spec_of(std::uint64_t trials, const std::vector<std::string>& fields,
                             const std::vector<std::string>& arms) {
  design::CampaignSpec spec;
  spec.seed = 3;
  for (const std::string& arm : arms) spec.arms.push_back({arm, {}});
  spec.strata.edit<design::BitStrata>().roles = {"weight", "bias"};
  spec.strata.edit<design::BitStrata>().fields = fields;
  spec.trials_per_stratum = trials;
  return spec;
}

std::vector<std::uint64_t> draws(const Round& round) {
  std::vector<std::uint64_t> all;
  for (const auto& cell : round.strata) all.push_back(cell.draws);
  return all;
}

std::vector<Round> all_rounds(const design::CampaignSpec& spec) {
  std::vector<Round> rounds;
  std::size_t stops = 0;
  while (stops <= spec.earlier.size()) {
    rounds.push_back(next_round(spec, kStrata, rounds, {}));
    stops += rounds.back().stop ? 1 : 0;
  }
  return rounds;
}

design::CampaignSpec extended() {
  design::CampaignSpec spec = spec_of(10, {"sign", "exponent"}, {"serial", "data-2"});
  spec.earlier = {spec_of(4, {"sign"}, {"serial"})};
  return spec;
}

TEST(ExtendedRounds, TheFirstSpecEndsBeforeTheNextDrawsWhatIsMissing) {
  const auto rounds = all_rounds(extended());
  ASSERT_EQ(rounds.size(), 4U);
  EXPECT_THAT(rounds[0].arms, ElementsAre("serial"));
  EXPECT_THAT(draws(rounds[0]), ElementsAre(4, 4));
  EXPECT_EQ(rounds[1].stop, Stop::plan);
  EXPECT_THAT(rounds[2].arms, ElementsAre("serial", "data-2"));
  EXPECT_THAT(rounds[2].joining, ElementsAre("data-2"));
  EXPECT_THAT(draws(rounds[2]), ElementsAre(6, 10, 6, 10));
  EXPECT_EQ(rounds[2].strata[2].first_draw, 4U);
  EXPECT_EQ(rounds[3].stop, Stop::plan);
  EXPECT_THAT(rounds[3].joining, IsEmpty());
}

TEST(ExtendedRounds, ARoundKeepsWhoJoinsInItsFile) {
  const Round round = all_rounds(extended())[2];
  EXPECT_THAT(record::round_from_json(record::to_json(round)).joining, ElementsAre("data-2"));
  EXPECT_FALSE(record::to_json(all_rounds(extended())[0]).contains("joining"));
}

// What holds at every look holds because the order of draws never changes afterwards.
TEST(ExtendedOrder, BeginsWithTheDrawsOfTheRoundsBefore) {
  const design::CampaignSpec first = spec_of(4, {"sign"}, {"serial"});
  const Order before = order_of(first, {next_round(first, {kStrata[0], kStrata[2]}, {}, {})}, {});
  const Order after = order_of(extended(), all_rounds(extended()), {});
  EXPECT_THAT(after.names, ElementsAre("weight.sign", "weight.exponent", "bias.sign", "bias.exponent"));
  EXPECT_THAT(after.bits, ElementsAre(1000, 8000, 12, 96));
  ASSERT_EQ(after.rounds.size(), 2U);
  ASSERT_EQ(after.rounds[0].picks.size(), before.rounds[0].picks.size());
  for (std::size_t i = 0; i < before.rounds[0].picks.size(); ++i) {
    EXPECT_EQ(after.names[after.rounds[0].picks[i]], before.names[before.rounds[0].picks[i]]);
  }
  EXPECT_THAT(after.rounds[0].share, ElementsAre(4, 0, 4, 0));
  EXPECT_THAT(after.rounds[1].first, ElementsAre(4, 0, 4, 0));
}

Round sampled_round(std::uint64_t number, std::uint64_t first, std::uint64_t picks, double half_width) {
  Round round;
  round.number = number;
  round.strata = {{{"weight.sign", "weight", "sign", 100000}, first, picks, 1}};
  round.picks = picks;
  round.reached = {{"serial", record::OutcomeClass::crash, "", half_width}};
  return round;
}

// Twice as precise takes four times the information: what the first spec's rounds brought, and three times
// that.
TEST(ExtendedWeights, AnExtensionAddsTheInformationThatItBrings) {
  design::CampaignSpec spec = spec_of(0, {"sign"}, {"serial"});
  spec.sampling.emplace();
  spec.sampling->half_width = 0.04;
  Round pilot = sampled_round(0, 0, 50, 1);
  pilot.picks = 0;
  pilot.strata[0].share = 0;
  Round stop = sampled_round(2, 100, 0, 0.04);
  stop.stop = Stop::half_width;
  const std::vector<Round> before = {pilot, sampled_round(1, 50, 50, 0.0401), stop};
  const auto first = round_weights(spec, before);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_NEAR(first[0] + first[1], 1, 1e-12);

  design::CampaignSpec finer = spec;
  finer.sampling->half_width = 0.02;
  finer.earlier = {spec};
  auto rounds = before;
  rounds.push_back(sampled_round(3, 100, 25, 0.04));
  rounds.push_back(sampled_round(4, 125, 300, 0.0201));
  const auto weights = round_weights(finer, rounds);
  ASSERT_EQ(weights.size(), 4U);
  EXPECT_EQ(weights[0], first[0]);
  EXPECT_EQ(weights[1], first[1]);
  EXPECT_NEAR(weights[2], 3 * 25 / (100 * (0.04 / 0.02 - 1) + 0.3 * 25), 1e-12);
  EXPECT_NEAR(weights[2] + weights[3], 3, 1e-12);
  // The stakes of the bets stay those of the first half-width.
  EXPECT_EQ(order_of(finer, rounds, {}).aim, 0.04);
}

TEST(ExtendedRounds, ANewStratumBeginsWithAPilot) {
  design::CampaignSpec spec = spec_of(0, {"sign", "exponent"}, {"serial"});
  spec.sampling.emplace();
  spec.sampling->target = SamplingTarget::strata;
  spec.sampling->pilot = 5;
  design::CampaignSpec first = spec;
  first.strata.edit<design::BitStrata>().fields = {"sign"};
  spec.earlier = {first};
  Round pilot = next_round(first, {kStrata[0], kStrata[2]}, {}, {});
  Round stop = pilot;
  stop.number = 1;
  stop.stop = Stop::half_width;
  for (auto& cell : stop.strata) {
    cell.first_draw = cell.draws;
    cell.draws = 0;
  }
  const Round opening = next_round(spec, kStrata, {pilot, stop}, {});
  EXPECT_THAT(draws(opening), ElementsAre(0, 5, 0, 5));
  EXPECT_THAT(opening.joining, IsEmpty());
  EXPECT_FALSE(opening.stop);
}

}  // namespace
}  // namespace bitrift::analyze::extended_test
