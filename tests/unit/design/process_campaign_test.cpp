// Campaigns in which ranks fail: what their specs may say.
#include <filesystem>

#include <gmock/gmock.h>

#include "core/file.h"
#include "design/campaign_spec.h"
#include "design/extension.h"
#include "design/kind/run/process_strata.h"
#include "tests_support.h"
#include "unit/places.h"

namespace bitrift::design::process_campaign_test {
namespace {

using namespace record;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::error_of;

std::filesystem::path shipped(const std::string& name) {
  return std::filesystem::path(bitrift::testing::source_dir) / "campaigns" / name;
}

CampaignSpec data(const std::vector<std::string>& overrides = {}) {
  return read_campaign_spec(shipped("process/data.json"), overrides);
}

std::string problem(const std::vector<std::string>& overrides,
                    const std::string& spec = "process/data.json") {
  return error_of([&] { (void)read_campaign_spec(shipped(spec), overrides); });
}

RecoverySpec recovery(const std::string& value, const std::string& spec = "process/data.json") {
  return read_campaign_spec(shipped(spec), {"arms.0.recovery=" + value}).arms[0].recovery;
}

TEST(ProcessCampaign, StrataAreThePhases) {
  const CampaignSpec spec = data({"strata.process.steps=7"});
  EXPECT_EQ(spec.strata.as<ProcessStrata>()->steps, (StepRange{1, 7}));
  EXPECT_THAT(spec.strata.as<ProcessStrata>()->how, ElementsAre(FailureMode::kill));
  const auto strata = spec.strata->strata();
  ASSERT_EQ(strata.size(), 6U);
  EXPECT_EQ(strata[1].name, "process.backward");
  EXPECT_EQ(strata[1].role, "process");
  EXPECT_EQ(strata[1].field, "backward");
  EXPECT_FALSE(spec.strata->alters_file());
  EXPECT_EQ(data({"strata.process.steps={\"first\": 3, \"last\": 3}"}).strata.as<ProcessStrata>()->steps,
            (StepRange{3, 3}));
  EXPECT_EQ(data().strata.as<ProcessStrata>()->steps, std::nullopt);
}

TEST(ProcessCampaign, RecoveriesHaveTheDefaultsOfTheirKind) {
  EXPECT_EQ(recovery("shrink"), RecoverySpec{.kind = RecoveryKind::shrink});
  // Phase recovery loses two ranks.
  EXPECT_EQ(recovery("spare"), (RecoverySpec{.kind = RecoveryKind::spare, .spares = 2}));
  EXPECT_EQ(recovery("restart"), (RecoverySpec{.kind = RecoveryKind::restart, .snapshot_every = 10}));
  EXPECT_EQ(
      recovery("{\"kind\": \"restart\", \"state\": \"file\", \"spares\": 1}"),
      (RecoverySpec{
          .kind = RecoveryKind::restart, .state = StateSource::file, .spares = 1, .checkpoint_every = 10}));
  EXPECT_EQ(recovery("{\"kind\": \"shrink\", \"state\": \"buddy\", \"snapshot_every\": 3}"),
            (RecoverySpec{.kind = RecoveryKind::shrink, .state = StateSource::buddy, .snapshot_every = 3}));
  EXPECT_EQ(recovery("{\"kind\": \"shrink\", \"expand_after\": 8}"),
            (RecoverySpec{.kind = RecoveryKind::shrink, .expand_after = 8}));
  // A pipeline has no replica, so something must keep each stage.
  EXPECT_EQ(recovery("respawn", "process/pipeline.json"),
            (RecoverySpec{.kind = RecoveryKind::respawn, .snapshot_every = 10}));
  EXPECT_EQ(recovery("{\"kind\": \"respawn\", \"checkpoint_every\": 4}", "process/pipeline.json"),
            (RecoverySpec{.kind = RecoveryKind::respawn, .checkpoint_every = 4}));
  EXPECT_EQ(recovery("relaunch"), (RecoverySpec{.kind = RecoveryKind::relaunch, .checkpoint_every = 10}));
  EXPECT_EQ(
      recovery("{\"kind\": \"relaunch\", \"state\": \"file\", \"checkpoint_every\": 4}",
               "process/pipeline.json"),
      (RecoverySpec{.kind = RecoveryKind::relaunch, .state = StateSource::file, .checkpoint_every = 4}));
  const std::string phases = "strata.process.phases=[\"forward\"]";
  EXPECT_EQ(data({phases, "arms.0.recovery=none"}).arms[0].recovery, RecoverySpec{});
  EXPECT_EQ(data({phases, "arms.0.recovery=spare", "strata.process.together=3"}).arms[0].recovery.spares, 3);
}

TEST(ProcessCampaign, CanonicalFormIsReadBack) {
  for (const char* name : {"process/data.json", "process/pipeline.json", "process/hybrid.json"}) {
    CampaignSpec spec = read_campaign_spec(shipped(name), {"strata.process.steps=5"});
    const auto stages = static_cast<std::size_t>(spec.arms[0].parallel.stages);
    spec.strata.edit<ProcessStrata>().points =
        KillPoints{22, {stages, {{TrainingPhase::forward, 4}, {TrainingPhase::save, 9}}}};
    const Json canonical = to_json(spec);
    EXPECT_EQ(to_json(campaign_spec_from_json(canonical)), canonical) << name;
    EXPECT_EQ(campaign_spec_from_json(canonical).strata.as<ProcessStrata>()->points,
              spec.strata.as<ProcessStrata>()->points);
  }
}

TEST(ProcessCampaign, RefusesRecoveriesThatMakeNoSense) {
  const auto refused = [](const std::string& value, const std::string& spec = "process/data.json") {
    return problem({"arms.0.recovery=" + value}, spec);
  };
  EXPECT_THAT(refused("heal"), HasSubstr("arms.0.recovery: expected one of: none, shrink"));
  EXPECT_THAT(refused("{\"kind\": \"none\", \"spares\": 1}"),
              HasSubstr("nothing is recovered with kind none"));
  EXPECT_THAT(refused("{\"kind\": \"shrink\", \"spares\": 1}"),
              HasSubstr("shrink has no use for idle ranks"));
  EXPECT_THAT(refused("{\"kind\": \"spare\", \"spares\": 0}"), HasSubstr("at least 1 idle rank"));
  EXPECT_THAT(refused("{\"kind\": \"spare\", \"batch\": \"smaller\"}"), HasSubstr("remove the key"));
  EXPECT_THAT(refused("{\"kind\": \"spare\", \"state\": \"file\", \"snapshot_every\": 3}"),
              HasSubstr("takes no snapshots"));
  EXPECT_THAT(refused("{\"kind\": \"spare\", \"state\": \"buddy\", \"checkpoint_every\": 3}"),
              HasSubstr("reads no checkpoint"));
  EXPECT_THAT(refused("{\"kind\": \"restart\", \"snapshot_every\": 0}"), HasSubstr("of at least 1"));
  EXPECT_THAT(
      refused("{\"kind\": \"respawn\", \"expand_after\": 3}"),
      HasSubstr("expand_after: respawn does not continue with fewer ranks; only shrink does; remove"));
  EXPECT_THAT(refused("{\"kind\": \"shrink\", \"batch\": \"smaller\", \"expand_after\": 3}"),
              HasSubstr("expand_after: with a smaller batch"));
  EXPECT_THAT(refused("{\"state\": \"buddy\"}"), HasSubstr("key 'kind' is missing"));
  EXPECT_THAT(refused("{\"kind\": \"spare\", \"forget\": [\"hope\"]}"), HasSubstr("parameters, optimizer"));
  EXPECT_THAT(refused("{\"kind\": \"spare\", \"state\": \"replica\"}", "process/pipeline.json"),
              HasSubstr("give buddy or file"));
  EXPECT_THAT(refused("{\"kind\": \"shrink\", \"batch\": \"smaller\"}", "process/pipeline.json"),
              HasSubstr("computes the whole batch"));
  EXPECT_THAT(refused("{\"kind\": \"relaunch\", \"state\": \"buddy\"}"),
              HasSubstr("keeps nothing in memory"));
  EXPECT_THAT(refused("{\"kind\": \"relaunch\", \"snapshot_every\": 2}"), HasSubstr("give checkpoint_every"));
  EXPECT_THAT(refused("{\"kind\": \"relaunch\", \"spares\": 1}"), HasSubstr("no use for idle ranks"));
  EXPECT_THAT(problem({"arms=[{\"name\": \"one\", \"parallel\": {\"kind\": \"serial\"}, \"recovery\": "
                       "\"shrink\"}]"}),
              HasSubstr("nobody is left when it fails; give none"));
  EXPECT_THAT(problem({"arms=[{\"name\": \"one\", \"parallel\": {\"kind\": \"data\", \"ranks\": 2, "
                       "\"shard_optimizer\": true}, \"recovery\": \"spare\"}]"}),
              HasSubstr("spare: a rank that fails takes its part of the optimizer state with it"));
}

TEST(ProcessCampaign, RefusesWhatOnlyAlteredBitsHave) {
  EXPECT_THAT(problem({"arms.1.parallel.ranks=2"}),
              HasSubstr("arms[1].parallel: differs from that of arm 'shrink'"));
  EXPECT_THAT(problem({"arms.2.scope={\"replicas\": 1}"}), HasSubstr("arms.2.scope: says who loads"));
  EXPECT_THAT(problem({"propagation={\"steps\": [1]}"}), HasSubstr("propagation: follows altered bits"));
  EXPECT_THAT(problem({"runner={\"exec\": {\"command\": [\"x\"]}}"}),
              HasSubstr("runner: only bitrift-train can lose ranks"));
  EXPECT_THAT(problem({"arms.0.guards={\"nonfinite\": true, \"on_alarm\": \"rollback\"}"}),
              HasSubstr("guards with on_alarm rollback do not act where ranks or links fail"));
  EXPECT_THAT(problem({"base.train.guards={\"nonfinite\": true, \"on_alarm\": \"skip\"}"}),
              HasSubstr("guards with on_alarm skip do not act where ranks or links fail"));
  EXPECT_THAT(problem({"strata.process.points={}"}),
              HasSubstr("strata.process.points: bitrift finds out at which points"));
  EXPECT_THAT(problem({"strata.tensors=[\"**\"]"}), HasSubstr("ranks that fail alter no tensor"));
  EXPECT_THAT(problem({"strata.roles=[\"weight\"]"}), HasSubstr("or 'models', or 'process'"));
  EXPECT_THAT(problem({"arms.0.recovery=shrink"}, "quickstart.json"),
              HasSubstr("arms.0.recovery: is for campaigns in which ranks or links fail"));
}

TEST(ProcessCampaign, RefusesVictimsThatThereAreNot) {
  EXPECT_THAT(problem({"strata.process.phases=[\"save\"]"}), HasSubstr("expected one of: forward, backward"));
  EXPECT_THAT(problem({"strata.process.phases=[]"}), HasSubstr("at least 1 item"));
  EXPECT_THAT(problem({"strata.process.steps=0"}), HasSubstr("of at least 1"));
  EXPECT_THAT(problem({"strata.process.steps={\"first\": 3, \"last\": 2}"}),
              HasSubstr("strata.process.steps: 'last' is 2, before 'first', which is 3"));
  EXPECT_THAT(problem({"strata.process.phases=[\"forward\"]", "strata.process.together=5"}),
              HasSubstr("the arms have 4 rank(s), so 5 cannot fail"));
  EXPECT_THAT(problem({"strata.process.together=2"}),
              HasSubstr("phases[5]: in phase recovery two ranks fail"));
  EXPECT_THAT(problem({"arms.3.recovery=none"}),
              HasSubstr("arm 'restart' (recovery none) ends with its first failure"));
}

TEST(ProcessCampaign, MayGrowByPhasesAndArmsAndByNothingElse) {
  CampaignSpec before = data({"strata.process.phases=[\"forward\"]", "arms.0.recovery=shrink"});
  CampaignSpec after = before;
  after.strata.edit<ProcessStrata>().phases.push_back(TrainingPhase::update);
  after.arms.push_back(after.arms.back());
  after.arms.back().name = after.arms.back().stem = "more";
  EXPECT_EQ(extension_problem(before, after), std::nullopt);
  after.strata.edit<ProcessStrata>().together = 2;
  EXPECT_THAT(extension_problem(before, after).value_or(""), HasSubstr("strata.process.together was 1"));
  after = before;
  after.arms[0].recovery.kind = RecoveryKind::respawn;
  EXPECT_THAT(extension_problem(before, after).value_or(""), HasSubstr("recovery"));
}

TEST(ProcessCampaign, StormsAreStrataOfTheirOwn) {
  const CampaignSpec spec = read_campaign_spec(shipped("process/storm.json"));
  const auto strata = spec.strata->strata();
  ASSERT_EQ(strata.size(), 2U);
  EXPECT_EQ(strata[1].name, "process.every_200");
  EXPECT_EQ(strata[1].field, "every_200");
  EXPECT_EQ(strata[1].bits, unbounded_stratum);
  EXPECT_FALSE(spec.strata->pooled());
  EXPECT_EQ(spec.strata->failing(), 1);
  const auto* const storms = spec.strata.as<ProcessStrata>();
  EXPECT_THAT(storms->how, ElementsAre(FailureMode::kill, FailureMode::slow));
  EXPECT_EQ(storms->slow, (Slowness{3, 10}));
  const Json canonical = to_json(spec);
  EXPECT_EQ(to_json(campaign_spec_from_json(canonical)), canonical);
  EXPECT_THAT(
      spec.strata->sentences(std::nullopt).faults.at("process.every_50"),
      HasSubstr("a probability of 1 in 50 (killed with SIGKILL or slowed down, 3 times for 10 steps)"));
}

TEST(ProcessCampaign, RefusesStormsThatMakeNoSense) {
  const auto refused = [](const std::string& change) { return problem({change}, "process/storm.json"); };
  EXPECT_THAT(refused("strata.process.every=[]"), HasSubstr("at least 1 item"));
  EXPECT_THAT(refused("strata.process.every=[0]"), HasSubstr("of at least 1"));
  EXPECT_THAT(refused("strata.process.every=[5, 5]"), HasSubstr("every"));
  EXPECT_THAT(refused("strata.process.phases=[\"evaluate\"]"),
              HasSubstr("phases[0]: with 'every', ranks fail"));
  EXPECT_THAT(refused("strata.process.phases=[\"update\", \"recovery\"]"),
              HasSubstr("phases[1]: with 'every'"));
  EXPECT_THAT(refused("strata.process.together=2"), HasSubstr("one rank fails at a time"));
  EXPECT_THAT(refused("strata.process.how=kill"), HasSubstr("slow: no rank is slowed down; remove the key"));
  EXPECT_THAT(refused("strata.process.how=[\"hit\"]"), HasSubstr("expected one of: kill, stop, exit, slow"));
  EXPECT_THAT(refused("strata.process.how=hit"), HasSubstr("expected one of: kill, stop, exit, slow"));
  EXPECT_THAT(refused("strata.process.slow={\"factor\": 1, \"steps\": 3}"), HasSubstr("slow.factor"));
  EXPECT_THAT(problem({"strata.process.how=slow"}),
              HasSubstr("slow: how slow a rank gets, and for how many"));
  EXPECT_THAT(problem({"strata.process.how=[\"kill\", \"exit\"]"}),
              HasSubstr("how: one way to fail, or with"));
  EXPECT_THAT(problem({"strata.process.how=slow", "strata.process.slow={\"factor\": 2, \"steps\": 3}"}),
              HasSubstr("phases[5]: a rank that is slow needs no recovery"));
  EXPECT_THAT(problem({"exhaustive=true"}, "process/storm.json"),
              HasSubstr("the draws of storms are too many to enumerate"));
  EXPECT_THAT(problem({"sampling={\"half_width\": 0.1}"}, "process/storm.json"),
              HasSubstr("storms are not parts of one population"));
}

TEST(ProcessCampaign, MayGrowByStormsButNotByTheirPhases) {
  const CampaignSpec before =
      read_campaign_spec(shipped("process/storm.json"), {"strata.process.phases=[\"update\"]"});
  CampaignSpec after = before;
  after.strata.edit<ProcessStrata>().every.push_back(1000);
  EXPECT_EQ(extension_problem(before, after), std::nullopt);
  after.strata.edit<ProcessStrata>().phases.push_back(TrainingPhase::forward);
  EXPECT_THAT(extension_problem(before, after).value_or(""), HasSubstr("strata.process.phases"));
}

TEST(KillPoints, ThatAreNoneAreRefused) {
  EXPECT_THROW((void)kill_points_from_json(Json::parse(R"({"stages": [{}]})")), Error);
  EXPECT_THROW((void)kill_points_from_json(Json::parse(R"({"steps_per_epoch": 0, "stages": [{}]})")), Error);
  EXPECT_THROW((void)kill_points_from_json(Json::parse(R"({"steps_per_epoch": 1, "stages": []})")), Error);
  EXPECT_THROW((void)kill_points_from_json(Json::parse(R"({"steps_per_epoch": 1, "stages": [{"nap": 1}]})")),
               Error);
  EXPECT_THROW((void)kill_points_from_json(Json::parse("[]")), Error);
  const KillPoints points =
      kill_points_from_json(Json::parse(R"({"steps_per_epoch": 2, "stages": [{"update": 3}]})"));
  EXPECT_EQ(points.of(0, TrainingPhase::update), 3);
  EXPECT_EQ(points.of(0, TrainingPhase::forward), 0);
  EXPECT_EQ(points.of(0, TrainingPhase::recovery), 4);
}

}  // namespace
}  // namespace bitrift::design::process_campaign_test
