// Campaigns in which ranks fail: populations, plan, landing, drills and kill points.
#include <filesystem>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <signal.h>

#include "campaign/driver/driver.h"
#include "campaign/folder/fact.h"
#include "campaign/plan/ends.h"
#include "core/permutation.h"
#include "core/philox.h"
#include "design/kind/run/process_strata.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::process_plan_test {
namespace {

using design::ProcessPopulation;
using design::ProcessStrata;
using record::FailureMode;
using record::KillPoints;
using record::ParallelKind;
using record::ProcessFault;
using record::RecoveryKind;
using record::TrainingPhase;
using record::TrialKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using tests::error_of;

using Set = std::vector<ProcessFault>;

const record::Parallel hybrid = {ParallelKind::hybrid, 4, 1, 2};  // ranks 0, 2: stage 0; 1, 3: stage 1

ProcessStrata strata(std::vector<TrainingPhase> phases, int together = 1) {
  ProcessStrata strata;
  strata.phases = std::move(phases);
  strata.together = together;
  strata.points =
      KillPoints{10,
                 {{{TrainingPhase::forward, 2}, {TrainingPhase::update, 3}},
                  {{TrainingPhase::forward, 2}, {TrainingPhase::update, 5}, {TrainingPhase::evaluate, 7}}}};
  return strata;
}

ProcessPopulation population(const ProcessStrata& of, std::int64_t epochs = 2) {
  return {of.phases.front(), of, hybrid, epochs};
}

std::string text_of(const Set& set) {
  std::string text;
  for (const ProcessFault& fault : set) text += to_text(fault) + " ";
  return text;
}

// All members, each once; a doubled one fails the test.
std::vector<Set> all_of(const ProcessPopulation& population) {
  std::vector<Set> all;
  std::set<std::string> texts;
  for (std::uint64_t i = 0; i < population.size(); ++i) {
    all.push_back(population.at(i));
    EXPECT_TRUE(texts.insert(text_of(all.back())).second) << text_of(all.back());
  }
  return all;
}

TEST(ProcessPopulation, HoldsEveryVictimStepAndPointOnce) {
  ProcessStrata of = strata({TrainingPhase::update});
  of.steps = design::StepRange{4, 9};
  of.how = {FailureMode::stop};
  const auto all = all_of(population(of));
  EXPECT_EQ(all.size(), (2U * 3 + 2 * 5) * 6);
  std::map<int, std::int64_t> most_points;
  for (const Set& set : all) {
    ASSERT_EQ(set.size(), 1U);
    const ProcessFault& fault = set[0];
    EXPECT_EQ(fault.phase, TrainingPhase::update);
    EXPECT_EQ(fault.how, FailureMode::stop);
    EXPECT_TRUE(fault.step >= 4 && fault.step <= 9);
    most_points[fault.rank] = std::max(most_points[fault.rank], fault.point + 1);
  }
  EXPECT_EQ(most_points, (std::map<int, std::int64_t>{{0, 3}, {1, 5}, {2, 3}, {3, 5}}));
}

TEST(ProcessPopulation, OfAllStepsIsThatOfTheWholeRun) {
  EXPECT_EQ(all_of(population(strata({TrainingPhase::forward}))).size(), 4U * 20 * 2);
}

TEST(ProcessPopulation, OfSeveralAtOnceHoldsEverySetOfRanksOnce) {
  for (const int together : {2, 3, 4}) {
    const auto all = all_of(population(strata({TrainingPhase::forward}, together)));
    const std::map<int, std::size_t> sets = {{2, 6}, {3, 4}, {4, 1}};  // 4 choose k
    EXPECT_EQ(all.size(), sets.at(together) * 20 * 2);
    for (const Set& set : all) {
      ASSERT_EQ(set.size(), static_cast<std::size_t>(together));
      for (std::size_t i = 1; i < set.size(); ++i) {
        EXPECT_LT(set[i - 1].rank, set[i].rank);
        EXPECT_EQ(std::tie(set[i].step, set[i].phase, set[i].point),
                  std::tie(set[0].step, set[0].phase, set[0].point));
      }
    }
  }
}

TEST(ProcessPopulation, OfSeveralAtOnceHasThePointsOfTheRankWithTheMost) {
  const auto all = all_of(population(strata({TrainingPhase::update}, 2), 1));
  EXPECT_EQ(all.size(), (1U * 3 + 5 * 5) * 10);  // ranks 0 and 2 have 3 points, every other pair has 5
  for (const Set& set : all) EXPECT_LT(set[0].point, set[0].rank == 0 && set[1].rank == 2 ? 3 : 5);
}

TEST(ProcessPopulation, OfEvaluationsFailsBehindTheStepsOfAnEpoch) {
  ProcessStrata of = strata({TrainingPhase::evaluate});
  of.steps = design::StepRange{1, 3};  // of steps, not of evaluations
  std::set<std::int64_t> steps;
  std::set<int> ranks;
  const auto all = all_of(population(of, 3));
  EXPECT_EQ(all.size(), 2U * 3 * 7);  // stage 0 evaluates nothing
  for (const Set& set : all) {
    steps.insert(set[0].step);
    ranks.insert(set[0].rank);
  }
  EXPECT_THAT(steps, ElementsAre(10, 20, 30));
  EXPECT_THAT(ranks, ElementsAre(1, 3));
}

TEST(ProcessPopulation, OfRecoveriesHoldsOrderedPairs) {
  const auto all = all_of(population(strata({TrainingPhase::recovery}), 1));
  EXPECT_EQ(all.size(), 4U * 3 * 10 * 4);
  for (const Set& set : all) {
    ASSERT_EQ(set.size(), 2U);
    EXPECT_NE(set[0].rank, set[1].rank);
    EXPECT_EQ(set[0].step, set[1].step);
    EXPECT_EQ(set[0].phase, TrainingPhase::reduce);
    EXPECT_EQ(set[0].point, 0);
    EXPECT_EQ(set[1].phase, TrainingPhase::recovery);
    EXPECT_LT(set[1].point, 4);
  }
}

TEST(ProcessPopulation, RefusesWhatThereIsNot) {
  ProcessStrata late = strata({TrainingPhase::forward});
  late.steps = design::StepRange{1, 21};
  EXPECT_EQ(error_of([&] { (void)population(late); }),
            "strata.process.steps names step 21, but a run takes 20 steps (10 an epoch): name steps of 1 to "
            "20, or raise resume.epochs");
  EXPECT_THAT(error_of([] { (void)population(strata({TrainingPhase::backward})); }),
              HasSubstr("no rank has a point in this phase"));
  ProcessStrata unknown = strata({TrainingPhase::forward});
  unknown.points.reset();
  EXPECT_THAT(error_of([&] { (void)population(unknown); }), HasSubstr("before the campaign has begun"));
  ProcessStrata damaged = strata({TrainingPhase::forward});
  damaged.points->stages.pop_back();
  EXPECT_THAT(error_of([&] { (void)population(damaged); }), HasSubstr("has 1 stages, the arms have 2"));
  ProcessStrata huge = strata({TrainingPhase::forward}, 32);
  const auto many = [&] {
    (void)ProcessPopulation(TrainingPhase::forward, huge, {ParallelKind::hybrid, 64, 1, 2}, 2);
  };
  EXPECT_THAT(error_of(many), HasSubstr("more than 2^47"));
}

TEST(ProcessPopulation, OfManyRanksReachesItsLastMember) {
  const ProcessStrata of = strata({TrainingPhase::forward}, 3);
  const ProcessPopulation large(TrainingPhase::forward, of, {ParallelKind::hybrid, 1000, 1, 2}, 2);
  EXPECT_EQ(large.size(), 166'167'000UL * 2 * 20);  // R: choose(1000, 3)
  EXPECT_EQ(text_of(large.at(0)), "0@1:forward.0=kill 1@1:forward.0=kill 2@1:forward.0=kill ");
  EXPECT_EQ(text_of(large.at(large.size() - 1)),
            "997@20:forward.1=kill 998@20:forward.1=kill 999@20:forward.1=kill ");
}

ProcessStrata storms(std::vector<std::int64_t> every) {
  ProcessStrata of = strata({TrainingPhase::forward, TrainingPhase::update});
  of.points->steps_per_epoch = 10000;
  of.every = std::move(every);
  of.how = {FailureMode::kill, FailureMode::slow};
  of.slow = record::Slowness{3, 10};
  return of;
}

record::Faults storm_of(const ProcessStrata& of, std::uint64_t key, std::uint64_t number) {
  static const Bases none;
  return of.population(0, {none, hybrid, 2})->draw(key, number, 0);
}

// Each count is binomial; the bounds are about five standard deviations wide.
TEST(StormPopulation, DrawsEachChoiceAsOftenAsTheOthers) {
  std::map<std::string, int> seen;
  std::map<std::pair<int, std::int64_t>, int> points;
  int faults = 0;
  for (std::uint64_t number = 0; number < 10; ++number) {
    std::int64_t last = 0;
    const record::Faults drawn = storm_of(storms({20}), 7, number);
    for (const ProcessFault& fault : drawn.processes()) {
      EXPECT_GT(fault.step, last);
      EXPECT_LE(fault.step, 20000);
      last = fault.step;
      ++faults;
      ++seen[name_of(fault.phase)];
      ++seen[name_of(fault.how)];
      ++seen[std::to_string(fault.rank)];
      EXPECT_EQ(fault.slowness.has_value(), fault.how == FailureMode::slow);
      if (fault.phase == TrainingPhase::update) ++points[{fault.rank % 2, fault.point}];
    }
  }
  EXPECT_NEAR(faults, 10000, 500);
  for (const char* name : {"forward", "update", "kill", "slow"})
    EXPECT_NEAR(seen[name], faults / 2.0, 250) << name;
  for (const char* name : {"0", "1", "2", "3"}) EXPECT_NEAR(seen[name], faults / 4.0, 220) << name;
  EXPECT_EQ(points.size(), 3U + 5);
  for (const auto& [place, count] : points)
    EXPECT_NEAR(count, faults / 4.0 / (place.first == 0 ? 3 : 5), 140);
}

TEST(StormPopulation, DependsOnKeyDrawAndStepAlone) {
  ProcessStrata of = storms({20});
  const Set whole = storm_of(of, 7, 3).processes();
  EXPECT_EQ(storm_of(of, 7, 3).processes(), whole);
  EXPECT_NE(storm_of(of, 7, 4).processes(), whole);
  EXPECT_NE(storm_of(of, 8, 3).processes(), whole);
  of.steps = design::StepRange{101, 4000};
  Set part = whole;
  std::erase_if(part, [](const ProcessFault& fault) { return fault.step < 101 || fault.step > 4000; });
  EXPECT_EQ(storm_of(of, 7, 3).processes(), part);
}

TEST(StormPopulation, WithoutAFailureIsARunInWhichNothingIsAltered) {
  const record::Faults none = storm_of(storms({1'000'000'000}), 7, 0);
  EXPECT_TRUE(none.empty() && none.of_bits());
  EXPECT_EQ(storm_of(storms({1}), 7, 0).size(), 20000U);
}

TEST(StormPopulation, RefusesPhasesWithoutPoints) {
  ProcessStrata of = storms({20});
  of.phases.push_back(TrainingPhase::backward);
  EXPECT_THAT(error_of([&] { (void)storm_of(of, 7, 0); }),
              HasSubstr("rank 0 has no point in phase backward"));
}

design::CampaignSpec process_spec() {
  design::CampaignSpec spec = testing::small_spec();
  spec.resume_epochs = 2;
  spec.strata = {};
  spec.strata = strata({TrainingPhase::forward, TrainingPhase::recovery});
  spec.arms = {{"shrink", hybrid}, {"spare", hybrid}, {"forgets", hybrid}};
  spec.arms[0].recovery = {.kind = RecoveryKind::shrink};
  spec.arms[1].recovery = {.kind = RecoveryKind::spare, .spares = 2};
  spec.arms[2].recovery = {.kind = RecoveryKind::spare, .spares = 2, .forget = {record::Structure::buffers}};
  return spec;
}

class ProcessPlanTest : public ::testing::Test {
 protected:
  ProcessPlanTest() {
    testing::write_base(folder_ / "base.h5");
    bases_.emplace_back(folder_ / "base.h5");
  }
  [[nodiscard]] std::vector<std::string> canaries_of(const std::string& arm) const {
    std::vector<std::string> names;
    for (const auto& chain : Plan(spec_, bases_).preparation(arm)) {
      for (const RunKey& key : chain) {
        if (key.kind == TrialKind::canary) names.push_back(key.id.stratum);
      }
    }
    return names;
  }

  TemporaryFolder folder_;
  Bases bases_;
  design::CampaignSpec spec_ = process_spec();
};

TEST_F(ProcessPlanTest, DrawsAreThoseOfThePermutationInEveryArm) {
  const Plan plan(spec_, bases_);
  ASSERT_EQ(plan.cells().size(), 2U);
  EXPECT_EQ(plan.cells()[0].stratum.bits, 4U * 20 * 2);
  EXPECT_EQ(plan.trials("spare").size(), 18U);
  const ProcessPopulation forward(TrainingPhase::forward, *spec_.strata.as<design::ProcessStrata>(), hybrid,
                                  2);
  const Permutation order(forward.size(), derive_key(spec_.seed, "stratum/process.forward"));
  for (std::uint64_t draw = 0; draw < 9; ++draw) {
    const auto run = plan.expand({TrialKind::trial, {"shrink", "process.forward", draw}});
    EXPECT_EQ(run.faults.processes(), forward.at(order(draw)));
    EXPECT_EQ(run.recovery, spec_.arms[0].recovery);
    EXPECT_TRUE(run.faults.bits().empty() && run.whole.empty() && run.replicas.empty());
    const auto other = plan.expand({TrialKind::trial, {"spare", "process.forward", draw}});
    EXPECT_EQ(other.faults, run.faults);
    EXPECT_EQ(other.recovery, spec_.arms[1].recovery);
  }
}

TEST_F(ProcessPlanTest, ExhaustivePlansHoldEveryFault) {
  spec_.trials_per_stratum = 0;
  spec_.exhaustive = true;
  const Plan plan(spec_, bases_);
  std::set<std::string> faults;
  for (const RunKey& key : plan.trials("shrink")) faults.insert(text_of(plan.expand(key).faults.processes()));
  EXPECT_EQ(faults.size(), plan.cells()[0].stratum.bits + plan.cells()[1].stratum.bits);
}

TEST_F(ProcessPlanTest, MoreDrawsThanFaultsAreRefused) {
  spec_.trials_per_stratum = 1000;
  EXPECT_THAT(error_of([&] { const Plan plan(spec_, bases_); }),
              HasSubstr("strata: process.forward (role process, field forward): it holds 160 faults, but "
                        "trials_per_stratum needs 1000 draws"));
}

TEST_F(ProcessPlanTest, CanariesFollowFromTheRecoveryOfTheArm) {
  EXPECT_THAT(canaries_of("spare"), ElementsAre("canary:nan", "canary:negate", "canary:none",
                                                "canary:no-recovery", "canary:unreached", "canary:recovers"));
  EXPECT_THAT(canaries_of("forgets"), ElementsAre("canary:nan", "canary:negate", "canary:none",
                                                  "canary:no-recovery", "canary:unreached"));
  const Plan plan(spec_, bases_);
  const auto unreached = plan.expand(plan.find({"spare", "canary:unreached", 0}));
  EXPECT_EQ(text_of(unreached.faults.processes()), "3@21:reduce.0=kill ");
  EXPECT_EQ(unreached.recovery, spec_.arms[1].recovery);
  const auto alone = plan.expand(plan.find({"spare", "canary:no-recovery", 0}));
  EXPECT_EQ(text_of(alone.faults.processes()), "3@10:reduce.0=kill ");
  EXPECT_EQ(alone.recovery, record::RecoverySpec{});
  // A run that alters nothing shows that a recovery left nothing behind.
  const auto last = plan.preparation("spare").back();
  EXPECT_EQ(last.back().kind, TrialKind::control);
  EXPECT_EQ(last.front().id.stratum, "canary:unreached");
}

TEST_F(ProcessPlanTest, ForgottenStateIsPlantedWhereARankIsReplaced) {
  const Drills drills = parse_drills({"forget-state"});
  drills.check(spec_);
  const Plan plan(spec_, bases_);
  auto run = plan.expand(plan.find({"spare", "canary:recovers", 0}));
  drills.plant(run);
  EXPECT_THAT(run.recovery->forget, ElementsAre(record::Structure::optimizer));
  auto alone = plan.expand(plan.find({"spare", "canary:no-recovery", 0}));
  drills.plant(alone);
  EXPECT_EQ(alone.recovery, record::RecoverySpec{});
  EXPECT_EQ(to_json(drills), record::Json({"forget-state"}));
  spec_.arms.resize(1);
  EXPECT_THAT(error_of([&] { drills.check(spec_); }), HasSubstr("no arm replaces a rank"));
  EXPECT_THROW(drills.check(testing::small_spec()), Error);
}

// A run in which ranks 1 and 2 are to fail.
Ran pair_ran() {
  Ran ran;
  ran.spec.id = {"spare", "process.recovery", 0};
  ran.spec.faults = Set{{1, 5, TrainingPhase::reduce, 0}, {2, 5, TrainingPhase::recovery, 1}};
  ran.result = testing::result(ran.spec.id.text());
  return ran;
}

record::Recovery recovery_of(std::vector<int> failed) {
  return {.kind = RecoveryKind::spare, .state = {}, .failed = std::move(failed)};
}

bool lands(const Ran& ran) { return row_of(ran, 7, {}).landed; }

TEST(ProcessLanding, OfARunThatWentOnNeedsEveryRankThatWasToFail) {
  Ran ran = pair_ran();
  EXPECT_THROW((void)row_of(ran, 7, {}), Misbehaviour);
  ran.result->recoveries = {recovery_of({1})};
  EXPECT_THROW((void)row_of(ran, 7, {}), Misbehaviour);
  ran.result->recoveries = {recovery_of({1, 2})};
  EXPECT_TRUE(lands(ran));
  ran.result->recoveries = {recovery_of({1}), recovery_of({2})};
  EXPECT_TRUE(lands(ran));
  EXPECT_FALSE(row_of(ran, 7, {}).no_change);
  ran.result->changed_tensors = {"model/w"};
  EXPECT_THROW((void)row_of(ran, 7, {}), Misbehaviour);
}

TEST(ProcessLanding, OfAStormNeedsEveryFailureOfARank) {
  Ran ran = pair_ran();
  ran.spec.faults = Set{{1, 5, TrainingPhase::reduce, 0},
                        {2, 6, TrainingPhase::forward, 0, FailureMode::slow, record::Slowness{2, 1}},
                        {1, 9, TrainingPhase::reduce, 0}};
  ran.result->steps = 9;
  ran.result->recoveries = {recovery_of({1})};
  EXPECT_THROW((void)row_of(ran, 7, {}), Misbehaviour);
  ran.result->recoveries.push_back(recovery_of({0, 1}));
  EXPECT_TRUE(lands(ran));
  ran.result->steps = 5;  // the slow one was not reached
  EXPECT_THROW((void)row_of(ran, 7, {}), Misbehaviour);
  ran.result->status = record::RunStatus::unrecovered;
  EXPECT_TRUE(lands(ran));
  ran.result->recoveries = {recovery_of({2})};
  EXPECT_THROW((void)row_of(ran, 7, {}), Misbehaviour);
}

TEST(ProcessLanding, OfARunThatCouldNotGoOnNeedsTheNameOfOne) {
  Ran ran = pair_ran();
  ran.result->status = record::RunStatus::unrecovered;
  ran.result->detail = "rank 2 failed, and nobody holds stage 1";  // words do not count
  ran.result->recoveries = {recovery_of({21})};
  EXPECT_THROW((void)row_of(ran, 7, {}), Misbehaviour);
  ran.result->recoveries = {recovery_of({2})};
  EXPECT_TRUE(lands(ran));
}

TEST(ProcessLanding, OfALostWorkerFollowsFromHowItWasLost) {
  Ran ran = pair_ran();
  ran.result.reset();
  ran.failure = testing::signal_of(SIGKILL);
  EXPECT_TRUE(lands(ran));
  ran.failure = testing::signal_of(SIGSEGV);
  EXPECT_FALSE(lands(ran));  // kept all the same: a crash of the recovery is an outcome
  ran.spec.faults = Set{{1, 5, TrainingPhase::reduce, 0, FailureMode::stop}};
  ran.failure = {record::FailureReason::hang, "", 0};
  EXPECT_TRUE(lands(ran));
  ran.failure = {record::FailureReason::exception, "rank 1 failed", 0};
  EXPECT_FALSE(lands(ran));
}

TEST(ProcessLanding, OfACanaryIsKeptWhicheverWay) {
  Ran ran = pair_ran();
  ran.spec.kind = TrialKind::canary;
  EXPECT_FALSE(lands(ran));
  EXPECT_FALSE(row_of(ran, 7, {}).faults.empty());
}

class KillPointsTest : public ::testing::Test {
 protected:
  // A bitrift-train that prints this document for every training and this line to stderr, and counts how
  // often it was asked.
  std::filesystem::path trainer(const std::string& document, const std::string& line = "", int code = 0) {
    const auto program = folder_ / "trainer";
    replace_text(program, "#!/bin/sh\necho asked >> " + (folder_ / "asked").string() + "\necho '" + line +
                              "' >&2\ncat <<'END'\n" + document + "\nEND\nexit " + std::to_string(code) +
                              "\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    return program;
  }
  std::size_t asked() const {
    const auto file = folder_ / "asked";
    return std::filesystem::exists(file) ? read_text(file).size() / 6 : 0;
  }
  static design::CampaignSpec spec() {
    return design::read_campaign_spec(std::filesystem::path(bitrift::testing::source_dir) /
                                      "campaigns/process/data.json");
  }
  std::string find(design::CampaignSpec& spec, const std::filesystem::path& program) {
    return error_of([&] {
      find_fact(spec, Layout{folder_ / "campaign"}, "spec.json", Launch{.program = program},
                [](const auto&) {});
    });
  }

  static constexpr const char* points_ =
      R"({"kill_points": {"steps_per_epoch": 22, "stages": [{"forward": 1, "backward": 1, "reduce": 2,
          "update": 10, "save": 21, "evaluate": 8}]}})";
  TemporaryFolder folder_;
};

TEST_F(KillPointsTest, AreAskedForOnceAndKeptInTheFolder) {
  design::CampaignSpec first = spec();
  const auto program = trainer(points_, "a warning");
  ASSERT_EQ(find(first, program), "");
  ASSERT_TRUE(first.strata.edit<design::ProcessStrata>().points);
  EXPECT_EQ(first.strata.edit<design::ProcessStrata>().points->of(0, TrainingPhase::update), 10);
  EXPECT_EQ(asked(), 1U);
  const Folder folder(folder_ / "campaign", first, {}, {"bitrift"});
  design::CampaignSpec again = spec();
  again.trials_per_stratum = 30;
  ASSERT_EQ(find(again, program), "");
  EXPECT_EQ(again.strata.edit<design::ProcessStrata>().points,
            first.strata.edit<design::ProcessStrata>().points);
  EXPECT_EQ(asked(), 1U);
  // Another strategy has other points.
  design::CampaignSpec other = spec();
  for (design::Arm& arm : other.arms) arm.parallel.micro_batches = 2;
  ASSERT_EQ(find(other, program), "");
  EXPECT_EQ(asked(), 2U);
}

TEST_F(KillPointsTest, ThatDoNotFitTheStrataAreRefusedBeforeAnythingIsMade) {
  design::CampaignSpec late = spec();
  late.strata.edit<design::ProcessStrata>().steps = design::StepRange{40, 45};
  EXPECT_THAT(find(late, trainer(points_)),
              HasSubstr("spec.json: strata: process.forward: strata.process.steps names step 45, but a "
                        "run takes 44 steps"));
  design::CampaignSpec old = spec();
  EXPECT_THAT(find(old, trainer("{\"layers\": []}")), HasSubstr("does not say at which points"));
  EXPECT_THAT(find(old, trainer("", "no", 2)), HasSubstr("describe ended with exit code 2: no"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "campaign"));
}

TEST_F(KillPointsTest, AreNoBusinessOfOtherCampaigns) {
  design::CampaignSpec bits = testing::small_spec();
  EXPECT_EQ(find(bits, "/no/such/program"), "");
}

}  // namespace
}  // namespace bitrift::campaign::process_plan_test
