#include "analyze/across/comparison.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "design/kind/bit_strata.h"
#include "unit/analyze/study.h"

namespace bitrift::analyze::comparison_test {
namespace {

using record::OutcomeClass;
using testing::add_trials;
using testing::clean_arm;
using ::testing::HasSubstr;
using testing::spec_of;
using Rows = std::vector<record::TrialRecord>;

design::CampaignSpec one_stratum(const std::vector<std::string>& arms) {
  design::CampaignSpec spec = spec_of(arms);
  spec.strata.edit<design::BitStrata>().roles = {"weight"};
  spec.strata.edit<design::BitStrata>().fields = {"exponent"};
  spec.trials_per_stratum = 400;
  return spec;
}

Rows rows_of(const std::vector<std::pair<std::string, int>>& sdc_of_arms) {
  Rows rows;
  for (const auto& [arm, sdc] : sdc_of_arms) {
    for (auto& row : clean_arm(arm)) rows.push_back(row);
    add_trials(rows, arm, "weight.exponent", 8000, 400 - sdc, sdc, 0);
  }
  return rows;
}

Comparison compared(const Rows& rows, const design::CampaignSpec& spec,
                    const ComparisonOptions& options = {}) {
  return compare_arms(rows, spec, trust_of(rows, judging_of(spec)), {}, options);
}

std::string refusal(const Rows& rows, const design::CampaignSpec& spec, const ComparisonOptions& options) {
  try {
    (void)compared(rows, spec, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Comparison, PairsTrialsOfTheSameFaultAndNamesTheWorseArm) {
  const auto spec = one_stratum({"serial", "data-2"});
  const Comparison comparison = compared(rows_of({{"serial", 20}, {"data-2", 80}}), spec);
  ASSERT_EQ(comparison.pairs.size(), 2U);
  const ComparedArms& sdc = comparison.pairs[0];
  EXPECT_EQ(sdc.outcome, OutcomeClass::sdc);
  EXPECT_EQ(sdc.difference.shown().counts().both, 20U);
  EXPECT_EQ(sdc.difference.shown().counts().first_only, 0U);
  EXPECT_EQ(sdc.difference.shown().counts().second_only, 60U);
  EXPECT_EQ(sdc.difference.shown().counts().neither, 320U);
  EXPECT_NEAR(sdc.difference.shown().difference(), 0.15, 1e-12);
  EXPECT_EQ(sdc.verdict, ComparisonVerdict::differ);
  EXPECT_THAT(text(comparison), HasSubstr("The SDC rate is higher in data-2 than in serial"));
  const ComparedArms& crash = comparison.pairs[1];
  EXPECT_EQ(crash.difference.shown().difference(), 0);
  EXPECT_EQ(crash.adjusted_p, 1);
  EXPECT_EQ(to_json(comparison)["pairs"][0]["verdict"], "differ");
}

TEST(Comparison, CallsArmsEquivalentOnlyInsideTheMargin) {
  const auto spec = one_stratum({"serial", "data-2"});
  const Rows rows = rows_of({{"serial", 20}, {"data-2", 20}});
  ComparisonOptions wide;
  wide.margin = 0.2;
  EXPECT_EQ(compared(rows, spec, wide).pairs[0].verdict, ComparisonVerdict::equivalent);
  ComparisonOptions narrow;
  narrow.margin = 0.001;
  const Comparison open = compared(rows, spec, narrow);
  EXPECT_EQ(open.pairs[0].verdict, ComparisonVerdict::open);
  EXPECT_THAT(text(open), HasSubstr("No difference in the SDC rate between serial and data-2 is shown"));
}

TEST(Comparison, ComparesAllPairsOrTheFirstArmWithTheOthersAndAdjustsForAllOfThem) {
  const auto spec = one_stratum({"a", "b", "c"});
  const Rows rows = rows_of({{"a", 20}, {"b", 40}, {"c", 20}});
  ComparisonOptions sdc;
  sdc.outcomes = {OutcomeClass::sdc};
  const Comparison all = compared(rows, spec, sdc);
  ASSERT_EQ(all.pairs.size(), 3U);
  EXPECT_DOUBLE_EQ(all.pairs[0].adjusted_p, std::min(1.0, 3 * all.pairs[0].p));
  sdc.arms = {"c", "b", "a"};
  const Comparison two = compared(rows, spec, sdc);
  ASSERT_EQ(two.pairs.size(), 2U);
  EXPECT_EQ(two.pairs[0].first, "c");
  EXPECT_EQ(two.pairs[1].second, "a");
}

TEST(Comparison, UsesOnlyDrawsThatBothArmsHave) {
  const auto spec = one_stratum({"serial", "data-2"});
  Rows rows = rows_of({{"serial", 20}});
  for (auto& row : clean_arm("data-2")) rows.push_back(row);
  add_trials(rows, "data-2", "weight.exponent", 8000, 100, 0, 0);
  const Comparison comparison = compared(rows, spec);
  EXPECT_EQ(comparison.pairs[0].difference.shown().counts().pairs(), 100U);
  EXPECT_EQ(comparison.pairs[0].difference.shown().first_rate(), 0);
}

TEST(Comparison, RefusesWhatCannotBeCompared) {
  const auto spec = one_stratum({"serial", "data-2"});
  const Rows rows = rows_of({{"serial", 1}, {"data-2", 1}});
  ComparisonOptions options;
  options.arms = {"serial", "pipeline"};
  EXPECT_THAT(refusal(rows, spec, options),
              HasSubstr("no arm 'pipeline' in this campaign; there are serial, data-2"));
  options.arms = {"serial"};
  EXPECT_THAT(refusal(rows, spec, options), HasSubstr("only one is given"));
  options.arms = {"serial", "serial"};
  EXPECT_THAT(refusal(rows, spec, options), HasSubstr("given twice"));
  EXPECT_THAT(refusal(rows_of({{"serial", 1}}), one_stratum({"serial"}), {}), HasSubstr("only one"));
  options.arms.clear();
  options.margin = 0;
  EXPECT_THAT(refusal(rows, spec, options), HasSubstr("margin of 0 points"));
  auto two_bases = spec;
  two_bases.bases.resize(2);
  two_bases.files = {{0, "", "base"}, {1, "", "other"}};
  two_bases.arms[1].file = 1;
  EXPECT_THAT(refusal(rows, two_bases, {}), HasSubstr("different bases"));
}

}  // namespace
}  // namespace bitrift::analyze::comparison_test
