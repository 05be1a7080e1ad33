#include "design/extension.h"

#include <gmock/gmock.h>

#include "design/kind/bit_strata.h"
#include "design/kind/model_strata.h"

namespace bitrift::design::extension_test {
namespace {

using namespace record;
using ::testing::HasSubstr;

CampaignSpec small() {
  CampaignSpec spec;
  spec.name = "study";
  spec.seed = 1;
  spec.bases[0].checkpoint = "/base.h5";
  spec.arms = {{"serial", {}}};
  spec.strata.edit<BitStrata>().roles = {"weight"};
  spec.strata.edit<BitStrata>().fields = {"sign"};
  spec.trials_per_stratum = 20;
  return spec;
}

CampaignSpec sampled(SamplingTarget target) {
  CampaignSpec spec = small();
  spec.trials_per_stratum = 0;
  spec.sampling.emplace();
  spec.sampling->target = target;
  spec.sampling->max_trials = 100;
  return spec;
}

TEST(ExtensionTest, DrawsStrataAndArmsMayBeAdded) {
  CampaignSpec larger = small();
  EXPECT_EQ(extension_problem(small(), larger), std::nullopt);
  larger.trials_per_stratum = 40;
  larger.strata.edit<BitStrata>().roles.push_back("bias");
  larger.strata.edit<BitStrata>().fields.push_back("mantissa");
  larger.arms.push_back({"data-2", {}});
  EXPECT_EQ(extension_problem(small(), larger), std::nullopt);
  EXPECT_EQ(extension_problem(larger, small()).value_or(""),
            "arms[1] was {\"name\":\"data-2\",\"parallel\":{\"kind\":\"serial\",\"micro_batches\":1,"
            "\"ranks\":1}}, is now absent");
}

TEST(ExtensionTest, FaultModelsMayBeAddedAtTheEnd) {
  CampaignSpec before = small();
  before.strata.edit<ModelStrata>().models = {{"zero", {}}};
  CampaignSpec after = before;
  after.strata.edit<ModelStrata>().models.push_back({"burst", {}});
  EXPECT_EQ(extension_problem(before, after), std::nullopt);
  std::swap(after.strata.edit<ModelStrata>().models[0], after.strata.edit<ModelStrata>().models[1]);
  EXPECT_THAT(extension_problem(before, after).value_or(""), HasSubstr("strata.models[0].name was \"zero\""));
}

TEST(ExtensionTest, EveryOtherKeyIsNamedWithBothValues) {
  CampaignSpec other = small();
  other.seed = 2;
  EXPECT_EQ(extension_problem(small(), other), "seed was 1, is now 2");
  other = small();
  other.confidence = 0.99;
  EXPECT_EQ(extension_problem(small(), other), "analysis.confidence was 0.95, is now 0.99");
  other = small();
  other.trials_per_stratum = 19;
  EXPECT_EQ(extension_problem(small(), other), "trials_per_stratum was 20, is now 19");
  other = small();
  other.strata.edit<BitStrata>().tensors = {"model/**"};
  EXPECT_EQ(extension_problem(small(), other), "strata.tensors[0] was absent, is now \"model/**\"");
}

TEST(ExtensionTest, SamplingMayAskForMore) {
  const CampaignSpec before = sampled(SamplingTarget::totals);
  CampaignSpec after = before;
  after.sampling->half_width = 0.01;
  after.sampling->max_trials = 200;
  after.arms.push_back({"data-2", {}});
  EXPECT_EQ(extension_problem(before, after), std::nullopt);
  after.sampling->max_trials.reset();
  EXPECT_EQ(extension_problem(before, after), std::nullopt);
  EXPECT_THAT(extension_problem(after, before).value_or(""), HasSubstr("arms[1]"));
  after = before;
  after.sampling->max_trials = 99;
  EXPECT_EQ(extension_problem(before, after), "sampling.max_trials was 100, is now 99");
  after = before;
  after.sampling->half_width = 0.03;
  EXPECT_EQ(extension_problem(before, after), "sampling.half_width was 0.02, is now 0.03");
  after = before;
  after.sampling->pilot = 4;
  EXPECT_EQ(extension_problem(before, after), "sampling.pilot was 3, is now 4");
}

TEST(ExtensionTest, StrataJoinSampledRatesButNotASampledTotal) {
  for (const SamplingTarget target : {SamplingTarget::totals, SamplingTarget::strata}) {
    CampaignSpec after = sampled(target);
    after.strata.edit<BitStrata>().fields.push_back("mantissa");
    const auto problem = extension_problem(sampled(target), after);
    EXPECT_EQ(problem.has_value(), target == SamplingTarget::totals);
    if (problem) {
      EXPECT_THAT(*problem, HasSubstr("strata cannot be added with sampling.target totals"));
    }
  }
}

}  // namespace
}  // namespace bitrift::design::extension_test
