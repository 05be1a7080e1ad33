// Campaigns whose links alter messages: what their specs may say.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "design/campaign_spec.h"
#include "design/kind/run/wire_strata.h"
#include "tests_support.h"
#include "unit/places.h"

namespace bitrift::design::wire_campaign_test {
namespace {

using namespace record;
using ::testing::HasSubstr;
using tests::error_of;

const std::filesystem::path shipped =
    std::filesystem::path(bitrift::testing::source_dir) / "campaigns/mesh/wire.json";

TEST(WireCampaign, StrataAreKindsOfMessagesTimesFields) {
  const CampaignSpec spec = read_campaign_spec(shipped, {"strata.wire.steps=7"});
  EXPECT_EQ(spec.strata.as<WireStrata>()->steps, (StepRange{1, 7}));
  EXPECT_FALSE(spec.strata->alters_file());
  std::vector<std::string> names;
  for (const Stratum& stratum : spec.strata->strata()) names.push_back(stratum.name);
  EXPECT_THAT(names, ::testing::ElementsAre("add.sign", "add.exponent", "add.mantissa", "copy.sign",
                                            "copy.exponent", "copy.mantissa"));
  const auto copies = read_campaign_spec(shipped, {"strata.wire.kinds=[\"copy\"]"}).strata->strata();
  ASSERT_EQ(copies.size(), 3U);
  EXPECT_EQ(copies[1].role, "copy");
  EXPECT_EQ(copies[1].field, "exponent");
}

TEST(WireCampaign, SurvivesItsStoredForm) {
  const CampaignSpec spec = read_campaign_spec(shipped, {"strata.wire.steps=7"});
  const Json value = to_json(spec);
  EXPECT_EQ(to_json(campaign_spec_from_json(value)), value);
}

class RefusedWire : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(RefusedWire, SaysWhy) {
  const auto& [change, says] = GetParam();
  EXPECT_THAT(error_of([&] { (void)read_campaign_spec(shipped, {change}); }), HasSubstr(says));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedWire,
    ::testing::Values(
        std::pair("strata.wire.messages={}", "bitrift finds out which messages are sent; remove the key"),
        std::pair("strata.wire.fields=[\"sign\", \"31\"]", "share bit 31 of float32"),
        std::pair("strata.wire.steps={\"first\": 3, \"last\": 2}", "'last' is 2, before 'first', which is 3"),
        std::pair("strata.roles=[\"weight\"]", "or 'process', or 'wire', or 'link'"),
        std::pair("strata.tensors=[\"a\"]", "links alter messages of gradients and no tensor"),
        std::pair("propagation={\"steps\": [1]}", "links alter none; remove the key"),
        std::pair("arms.0.scope={\"replicas\": 1}", "links alter none; remove the key"),
        std::pair("arms.0.precision=fp64", "give base.train.precision"),
        std::pair("arms.0.recovery=shrink", "is for campaigns in which ranks or links fail"),
        std::pair("arms.0.parallel={\"kind\": \"data\", \"ranks\": 2}",
                  "messages are planned only on a mesh"),
        std::pair("arms.1={\"name\": \"other\", \"parallel\": {\"kind\": \"data\", \"mesh\": {\"rows\": 2, "
                  "\"columns\": 2}}}",
                  "differs from that of the first arm")));

}  // namespace
}  // namespace bitrift::design::wire_campaign_test
