// Campaigns whose links fail: what their specs may say.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "design/campaign_spec.h"
#include "design/kind/run/link_strata.h"
#include "tests_support.h"
#include "unit/places.h"

namespace bitrift::design::link_campaign_test {
namespace {

using namespace record;
using ::testing::HasSubstr;
using tests::error_of;

const std::filesystem::path shipped =
    std::filesystem::path(bitrift::testing::source_dir) / "campaigns/mesh/link-faults.json";

TEST(LinkCampaign, StrataAreKindsOfFailures) {
  const CampaignSpec spec = read_campaign_spec(shipped, {"strata.link.steps=7"});
  EXPECT_EQ(spec.strata.as<LinkStrata>()->steps, (StepRange{1, 7}));
  EXPECT_FALSE(spec.strata->alters_file());
  const auto strata = spec.strata->strata();
  ASSERT_EQ(strata.size(), 2U);
  EXPECT_EQ(strata[0].name, "link.dead");
  EXPECT_EQ(strata[1].field, "slow");
  EXPECT_EQ(read_campaign_spec(shipped, {"strata.link.kinds=[\"slow\"]"}).strata->strata().size(), 1U);
  for (const Arm& arm : spec.arms) EXPECT_EQ(arm.recovery.kind, RecoveryKind::shrink);
}

TEST(LinkCampaign, SurvivesItsStoredForm) {
  CampaignSpec spec = read_campaign_spec(shipped, {"strata.link.steps=7"});
  spec.strata.edit<LinkStrata>().steps_per_epoch = 23;
  const Json value = to_json(spec);
  EXPECT_EQ(to_json(campaign_spec_from_json(value)), value);
}

class RefusedLinks : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(RefusedLinks, SayWhy) {
  const auto& [change, says] = GetParam();
  EXPECT_THAT(error_of([&] { (void)read_campaign_spec(shipped, {change}); }), HasSubstr(says));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedLinks,
    ::testing::Values(
        std::pair("strata.link.steps_per_epoch=4", "bitrift finds out how many steps an epoch has; remove"),
        std::pair("strata.link.delay=0", "strata.link.delay"),
        std::pair("arms.0.guards={\"nonfinite\": true, \"on_alarm\": \"skip\"}",
                  "guards with on_alarm skip do not act where ranks or links fail"),
        std::pair("strata.link.kinds=[\"dead\", \"lost\"]", "strata.link.kinds"),
        std::pair("strata.link.steps={\"first\": 3, \"last\": 2}", "'last' is 2, before 'first', which is 3"),
        std::pair("strata.roles=[\"weight\"]", "or 'wire', or 'link'"),
        std::pair("strata.tensors=[\"a\"]", "links that fail alter no tensor"),
        std::pair("propagation={\"steps\": [1]}", "links alter none; remove the key"),
        std::pair("arms.0.scope={\"replicas\": 1}", "links alter none; remove the key"),
        std::pair("arms.1.recovery=spare", "give none or shrink"),
        std::pair("arms.0.parallel={\"kind\": \"data\", \"ranks\": 2}", "only a mesh has links"),
        std::pair("arms.1.parallel.mesh.rows=3", "has another mesh than the first arm")));

}  // namespace
}  // namespace bitrift::design::link_campaign_test
