#include "campaign/plan/fault_sentences.h"

#include <gmock/gmock.h>

#include "design/kind/model_strata.h"
#include "design/kind/run/compute_strata.h"
#include "unit/campaign/support.h"
#include "unit/places.h"

namespace bitrift::campaign::fault_sentences_test {
namespace {

using design::CampaignSpec;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::StartsWith;

const std::filesystem::path shipped = std::filesystem::path(bitrift::testing::source_dir) / "campaigns";

std::vector<std::filesystem::path> shipped_campaigns() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(shipped)) {
    const std::string text = entry.is_regular_file() ? read_text(entry.path()) : "";
    if (text.find("schema/campaign.schema.json") != std::string::npos) paths.push_back(entry.path());
  }
  return paths;
}

FaultSentences of(const std::string& name, const std::vector<std::string>& overrides = {}) {
  return fault_sentences(design::read_campaign_spec(shipped / name, overrides), {}, {});
}

TEST(FaultSentences, ExistForEveryShippedCampaign) {
  const auto paths = shipped_campaigns();
  EXPECT_GE(paths.size(), 20U);
  for (const auto& path : paths) {
    SCOPED_TRACE(path.string());
    const CampaignSpec spec = design::read_campaign_spec(path);
    const FaultSentences said = fault_sentences(spec, {}, {});
    const auto* const strata = spec.strata.as<design::ModelStrata>();
    const std::size_t models = strata == nullptr ? 0 : strata->models.size();
    const std::size_t apart = spec.strata->pooled() ? 0 : spec.strata->strata().size();
    EXPECT_EQ(said.faults.size(), apart > 0 ? apart + (apart == 1 ? 1 : 0) : 1U);
    for (const auto& [name, fault] : said.faults) {
      EXPECT_THAT(fault, AnyOf(StartsWith("a flip of one bit"), StartsWith("a fault of the model "),
                               StartsWith("the failure of a "), StartsWith("an error in a number "),
                               StartsWith("a storm of failures")));
      EXPECT_THAT(fault, Not(HasSubstr("none")));
    }
    EXPECT_THAT(said.rates, StartsWith("Each rate is that of a "));
    EXPECT_GE(said.limits.size(), 2U + models);
    // Numbers that steps compute have rates by layer and bit, of each site alone.
    const bool computed = spec.strata.as<design::ComputeStrata>() != nullptr;
    EXPECT_EQ(said.no_map.empty(), spec.strata->no_rates_by("bit").empty() && !computed);
    EXPECT_EQ(said.scopes.size(), spec.arms.size());
  }
}

TEST(FaultSentences, NameThePopulationWithItsSizeWhereThatIsKnown) {
  EXPECT_EQ(
      of("quickstart.json").faults.at(""),
      "a flip of one bit, chosen uniformly from the exponent, sign and mantissa bits of weight, bias and "
      "momentum tensors");
  const CampaignSpec spec = design::read_campaign_spec(shipped / "exhaustive-mlp.json");
  record::Round round;
  for (record::Stratum stratum : spec.strata->strata()) {
    stratum.bits = 1000;
    round.strata.push_back({stratum});
  }
  EXPECT_THAT(fault_sentences(spec, {round}, {}).faults.at(""), HasSubstr("from the 3,000 sign, exponent"));
  round.strata.pop_back();  // an extension that is not planned yet
  EXPECT_THAT(fault_sentences(spec, {round}, {}).faults.at(""), HasSubstr("from the sign, exponent"));
}

TEST(FaultSentences, NameFieldsThatHaveNoWord) {
  EXPECT_THAT(of("quickstart.json", {R"(strata.fields=["sign","23-30"])"}).faults.at(""),
              HasSubstr("from the bits in the fields sign and 23-30 of weight"));
  EXPECT_THAT(of("quickstart.json", {R"(strata.fields=["any"])"}).faults.at(""),
              HasSubstr("from the bits of weight"));
}

TEST(FaultSentences, SayThatMemoryUpsetsAreSimulated) {
  const FaultSentences said = of("memory-upsets.json", {"strata.models.1.upset_rates=permanent"});
  EXPECT_THAT(said.limits,
              Contains(StartsWith("The memory upsets of bit, column, row, bank, chip, any and "
                                  "any-secded are simulated, with the transient failure rates")));
  EXPECT_THAT(said.limits,
              Contains(StartsWith("The memory upsets of word are simulated, with the permanent")));
  EXPECT_EQ(said.limits.size(), of("bit-error-rate.json").limits.size() + 2 + 2);
}

TEST(FaultSentences, SayWhoLoadsTheAlteredFile) {
  const auto scopes = of("replica-scope.json", {"arms.2.scope.replicas=[1]"}).scopes;
  EXPECT_EQ(scopes.at("all-replicas"), "");
  EXPECT_EQ(scopes.at("one-broadcast"), "in the file that 1 of 2 replicas loads (drawn for each fault)");
  EXPECT_EQ(scopes.at("one-apart"), "in the file that replica 1 of 2 loads");
}

TEST(FaultSentences, SayHowRanksFail) {
  const std::vector<std::string> stop = {"strata.process.how=stop", "strata.process.together=2",
                                         R"(strata.process.phases=["evaluate"])",
                                         R"(strata.process.steps={"first":3,"last":3})"};
  const FaultSentences said = of("process/data.json", stop);
  EXPECT_EQ(
      said.faults.at(""),
      "the failure of 2 ranks at once (stopped with SIGSTOP) in phase evaluate, chosen uniformly from the "
      "combinations of ranks, step 3 and points");
  EXPECT_THAT(said.limits, Contains(StartsWith("In phase evaluate, ranks fail in the evaluation after any")));
  EXPECT_FALSE(said.numbers);
  EXPECT_THAT(of("process/data.json").faults.at(""),
              HasSubstr("in phase forward, backward, reduce, update, evaluate or recovery, chosen"));
}

TEST(FaultSentences, SayWhichMessagesAndLinksFail) {
  EXPECT_THAT(of("mesh/wire.json", {R"(strata.wire.kinds=["copy"])"}).faults.at(""),
              HasSubstr("in messages that receivers copy, in all steps"));
  const FaultSentences dead = of("mesh/link-faults.json", {R"(strata.link.kinds=["dead"])"});
  EXPECT_EQ(dead.faults.at(""),
            "the failure of a link (dead), chosen uniformly from the combinations of links and steps");
  EXPECT_THAT(of("mesh/link-faults.json", {R"(strata.link.kinds=["slow"])"}).limits,
              Not(Contains(HasSubstr("when a link dies"))));
}

TEST(FaultSentences, SpellOutModels) {
  const FaultSentences said = of("jpdc2024/propagation.json");
  EXPECT_THAT(said.limits, Contains("Model first-125: what flip, bits 0-29,31, count 125, tensors "
                                    "model/conv1.weight."));
  EXPECT_THAT(said.faults, Contains(Key("first-125")));
  EXPECT_EQ(of("jpdc2024/precision.json").faults.at(""), "a fault of the model exponent-msb");
}

}  // namespace
}  // namespace bitrift::campaign::fault_sentences_test
