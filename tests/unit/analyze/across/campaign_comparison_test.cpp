#include <gmock/gmock.h>

#include "analyze/across/comparison.h"
#include "core/error.h"
#include "unit/analyze/samples.h"

namespace bitrift::analyze::campaign_comparison_test {
namespace {

using record::OutcomeClass;
using ::testing::HasSubstr;
using testing::sample_with;

Comparison compared(const Sample& first, const Sample& second, const ComparisonOptions& options = {}) {
  return compare_campaigns(first, "old", second, "new", options);
}

std::string refusal(const Sample& first, const Sample& second, const ComparisonOptions& options = {}) {
  try {
    (void)compared(first, second, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "";
}

TEST(CampaignComparison, PairsTheSameFaultsAndNamesTheWorseCampaign) {
  const Sample first = sample_with({{8000, 400, 20}});
  const Sample second = sample_with({{8000, 400, 80}});
  const Comparison comparison = compared(first, second);
  ASSERT_EQ(comparison.pairs.size(), 2U);
  EXPECT_EQ(comparison.pairs[0].verdict, ComparisonVerdict::differ);
  EXPECT_EQ(comparison.pairs[1].verdict, ComparisonVerdict::open);
  EXPECT_THAT(text(comparison), HasSubstr("The SDC rate is higher in serial of new than in serial of old"));
  const record::Json value = to_json(comparison);
  EXPECT_EQ(value["schema"], "bitrift/comparison/1");
  EXPECT_EQ(value["pairs"][0]["kind"], "paired");
  EXPECT_EQ(value["pairs"][0]["verdict"], "differ");
  EXPECT_EQ(value["pairs"][0]["second_only"], 60);
}

TEST(CampaignComparison, AdjustsForAllLines) {
  const Sample first = sample_with({{8000, 400, 20}}, 1, {"a", "b"});
  const Sample second = sample_with({{8000, 400, 40}}, 2, {"a", "b"});
  ComparisonOptions sdc;
  sdc.outcomes = {OutcomeClass::sdc};
  const Comparison comparison = compared(first, second, sdc);
  ASSERT_EQ(comparison.pairs.size(), 2U);
  EXPECT_DOUBLE_EQ(comparison.pairs[0].adjusted_p, std::min(1.0, 2 * comparison.pairs[0].p));
  EXPECT_EQ(to_json(comparison)["pairs"][0]["kind"], "unpaired");
}

TEST(CampaignComparison, ComparesAnArmOfEach) {
  const Sample first = sample_with({{8000, 40, 2}}, 1, {"plain"});
  const Sample second = sample_with({{8000, 40, 2}}, 1, {"guarded"});
  EXPECT_THAT(refusal(first, second), HasSubstr("as in --arm plain,guarded"));
  ComparisonOptions options;
  options.arms = {"plain", "guarded"};
  EXPECT_EQ(compared(first, second, options).pairs.size(), 2U);
  options.arms = {"guarded", "plain"};
  EXPECT_THAT(refusal(first, second, options), HasSubstr("no arm 'guarded'"));
  options.arms = {"plain"};
  EXPECT_THAT(refusal(first, second, options), HasSubstr("--arm gives 1"));
}

TEST(CampaignComparison, SaysWhatDiffersAndRefusesOtherPopulations) {
  const Sample first = sample_with({{8000, 40, 2}, {100, 40, 1}});
  Sample second = sample_with({{8000, 40, 2}, {200, 40, 1}});
  second.spec.seed = 7;
  second.base_digests["base"] = "ff";
  const std::string told = text(compared(first, second));
  EXPECT_THAT(told, HasSubstr("differs  seed: 42 and 7"));
  EXPECT_THAT(told, HasSubstr("differs  bits of stratum weight.exponent: 100 and 200"));
  EXPECT_THAT(told, HasSubstr("differs  base checkpoint of arm serial: other bytes"));
  EXPECT_THAT(refusal(first, sample_with({{8000, 40, 2}})), HasSubstr("strata.fields"));
  ComparisonOptions options;
  options.margin = 0;
  EXPECT_THAT(refusal(first, second, options), HasSubstr("margin of 0 points"));
}

}  // namespace
}  // namespace bitrift::analyze::campaign_comparison_test
