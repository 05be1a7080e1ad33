#include "analyze/process/process_view.h"

#include <string_view>

#include <gmock/gmock.h>

#include "core/error.h"
#include "design/kind/run/process_strata.h"
#include "tests_support.h"
#include "unit/analyze/study.h"

namespace bitrift::analyze::process_view_test {
namespace {

using record::FailureMode;
using record::ProcessFault;
using record::Reason;
using record::TrainingPhase;
using record::TrialKind;
using record::TrialRecord;
using ::testing::ElementsAre;
using testing::evaluation;
using testing::finished;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Rows = std::vector<TrialRecord>;

design::CampaignSpec spec_of(const std::vector<std::string>& arms = {"spare"}) {
  design::CampaignSpec spec;
  spec.name = "deaths";
  spec.seed = 16;
  for (const std::string& name : arms) {
    spec.arms.push_back({name, {.kind = record::ParallelKind::data, .ranks = 4}});
    spec.arms.back().recovery = {.kind = record::RecoveryKind::spare, .spares = 1};
  }
  spec.strata.edit<design::ProcessStrata>().phases = {TrainingPhase::update, TrainingPhase::forward,
                                                      TrainingPhase::recovery};
  spec.trials_per_stratum = 4;
  return spec;
}

TrialRecord failing(TrialRecord row, int rank = 1) {
  row.faults = std::vector<ProcessFault>{{rank, 5, TrainingPhase::forward, 0, FailureMode::kill}};
  return row;
}

TrialRecord recovered(TrialRecord row, int rank = 1) {
  row = failing(std::move(row), rank);
  row.result->recoveries = {{.kind = record::RecoveryKind::spare,
                             .state = record::StateSource::replica,
                             .failed = {rank},
                             .bytes_moved = 4096,
                             .times = {.detect = 0.25, .redo = 0.5}}};
  return row;
}

Rows clean(const std::string& arm) {
  Rows rows = testing::clean_arm(arm);
  const auto canary = [&](const char* stratum) {
    return finished(TrialKind::canary, arm, stratum, 0, {{evaluation(1, 0.1, 0.97, 0.2, 0.95)}}, "golden");
  };
  rows.push_back(failing(canary("canary:unreached")));
  rows.back().landed = false;
  rows.push_back(recovered(canary("canary:recovers")));
  rows.push_back(failing(canary("canary:no-recovery")));
  rows.back().result->status = record::RunStatus::unrecovered;
  return rows;
}

// b: bitwise, n: within noise, d: degraded, l: lost; from draw 0 on.
void add(Rows& rows, const std::string& arm, const std::string& phase, std::uint64_t population,
         std::string_view outcomes) {
  for (std::uint64_t draw = 0; draw < outcomes.size(); ++draw) {
    const char outcome = outcomes[draw];
    TrialRecord row = finished(TrialKind::trial, arm, "process." + phase, draw,
                               {{evaluation(1, 0.1, 0.97, 0.2, outcome == 'd' ? 0.1 : 0.95)}},
                               outcome == 'b' ? "golden" : "other");
    row.stratum_bits = population;
    row = outcome == 'l' ? failing(row) : recovered(row, draw == 0 ? 0 : 1);
    if (outcome == 'l') {
      row.result->status = record::RunStatus::unrecovered;
      row.result->replicas = {{}};
    }
    rows.push_back(row);
  }
}

Rows example(const std::string& arm = "spare") {
  Rows rows = clean(arm);
  add(rows, arm, "forward", 16, "bbbb");
  add(rows, arm, "update", 48, "bbnd");
  add(rows, arm, "recovery", 192, "llbl");
  return rows;
}

ProcessView view_of(const Rows& rows, const design::CampaignSpec& spec = spec_of(),
                    const SummaryOptions& options = {}) {
  return process_view(rows, spec, trust_of(rows, judging_of(spec)), {}, options);
}

TEST(ProcessView, CountsEveryOutcomeInItsPhase) {
  const ProcessView view = view_of(example());
  ASSERT_EQ(view.lines.size(), 4U);  // phases as the spec names them, then all
  EXPECT_EQ(view.lines[0].phase, "update");
  EXPECT_THAT(view.lines[0].counts, ElementsAre(2, 1, 1, 0));
  EXPECT_EQ(view.lines[1].phase, "forward");
  EXPECT_THAT(view.lines[1].counts, ElementsAre(4, 0, 0, 0));
  EXPECT_THAT(view.lines[2].counts, ElementsAre(1, 0, 0, 3));
  EXPECT_EQ(view.lines[2].reasons, (std::map<Reason, std::uint64_t>{{Reason::unrecovered, 3}}));
  EXPECT_EQ(view.lines[3].phase, std::nullopt);
  EXPECT_THAT(view.lines[3].counts, ElementsAre(7, 1, 1, 3));
  EXPECT_EQ(view.lines[3].population, 256U);
}

TEST(ProcessView, ReasonsAreSortedByTheirClass) {
  for (std::size_t i = 0; i < names_of(Reason{}).words.size(); ++i) {
    const auto reason = static_cast<Reason>(i);
    const RecoveryOutcome outcome = recovery_outcome_of(reason);
    const bool masked = outcome == RecoveryOutcome::bitwise || outcome == RecoveryOutcome::within_noise;
    EXPECT_EQ(masked, record::class_of(reason) == record::OutcomeClass::masked);
    EXPECT_EQ(outcome == RecoveryOutcome::lost, record::class_of(reason) == record::OutcomeClass::crash);
    EXPECT_EQ(outcome == RecoveryOutcome::bitwise, reason == Reason::bitwise);
  }
}

TEST(ProcessView, TotalsWeighPhasesByTheirSizes) {
  const ProcessLine total = view_of(example()).lines.back();
  // By hand: (16 x 4/4 + 48 x 2/4 + 192 x 1/4) / 256, and so on.
  EXPECT_DOUBLE_EQ(total.rate(RecoveryOutcome::bitwise).estimate, 0.34375);
  EXPECT_DOUBLE_EQ(total.rate(RecoveryOutcome::within_noise).estimate, 0.046875);
  EXPECT_DOUBLE_EQ(total.rate(RecoveryOutcome::degraded).estimate, 0.046875);
  EXPECT_DOUBLE_EQ(total.rate(RecoveryOutcome::lost).estimate, 0.5625);
}

TEST(ProcessView, IntervalsAreThoseOfDrawsWithoutReplacement) {
  const ProcessLine recovery = view_of(example()).lines[2];
  const Rate& lost = recovery.rate(RecoveryOutcome::lost);
  EXPECT_DOUBLE_EQ(lost.estimate, 0.75);
  const Interval anytime = anytime_finite(3, 4, 192, 0.95);
  EXPECT_DOUBLE_EQ(lost.anytime.low, anytime.low);
  EXPECT_DOUBLE_EQ(lost.anytime.high, anytime.high);
  // SciPy 1.17.1: beta.ppf(0.025, 3, 2), beta.ppf(0.975, 4, 1)
  EXPECT_NEAR(lost.clopper_pearson.low, 0.19412044968324338, 1e-9);
  EXPECT_NEAR(lost.clopper_pearson.high, 0.9936905367902902, 1e-9);

  // All four faults of a phase were tried: the rate is known.
  Rows rows = clean("spare");
  add(rows, "spare", "update", 4, "bbnl");
  const ProcessLine known = view_of(rows).lines[0];
  EXPECT_DOUBLE_EQ(known.rate(RecoveryOutcome::bitwise).anytime.low, 0.5);
  EXPECT_DOUBLE_EQ(known.rate(RecoveryOutcome::bitwise).anytime.high, 0.5);
  EXPECT_DOUBLE_EQ(known.rate(RecoveryOutcome::lost).anytime.low, 0.25);
}

TEST(ProcessView, SimultaneousIntervalsAreWider) {
  const ProcessView together = view_of(example(), spec_of(), {.simultaneous = true});
  EXPECT_DOUBLE_EQ(together.each_confidence, 1 - 0.05 / 16);  // four lines of four rates
  const Interval wide = together.lines[0].rate(RecoveryOutcome::bitwise).anytime;
  const Interval alone = view_of(example()).lines[0].rate(RecoveryOutcome::bitwise).anytime;
  EXPECT_LT(wide.low, alone.low);
  EXPECT_GT(wide.high, alone.high);
}

TEST(ProcessView, RowsBehindAMissingDrawCountNowhere) {
  Rows rows = example();
  std::erase_if(rows, [](const TrialRecord& row) {
    return row.kind == TrialKind::trial && row.id.stratum == "process.update" && row.id.draw == 1;
  });
  const ProcessView view = view_of(rows);
  EXPECT_EQ(view.lines[0].trials, 1U);
  EXPECT_EQ(view.lines[0].waiting, 2U);
  EXPECT_EQ(view.recoveries[0].trials, 1U);
  EXPECT_THAT(table(view), HasSubstr("2 rows are excluded until every earlier draw has finished."));
}

TEST(ProcessView, PhasesWithoutATrialHaveNoRate) {
  Rows rows = clean("spare");
  add(rows, "spare", "update", 48, "bb");
  const ProcessView view = view_of(rows);
  EXPECT_TRUE(view.lines[1].rates.empty());
  EXPECT_THAT(view.lines[3].unseen, ElementsAre("forward", "recovery"));
  EXPECT_EQ(view.lines[3].population, 0U);
  EXPECT_EQ(view.lines[3].rate(RecoveryOutcome::lost).anytime.high, 1);
  EXPECT_THAT(table(view), HasSubstr("No trial yet in spare: forward, recovery;"));
  EXPECT_EQ(to_json(view)["lines"][1]["rates"], record::Json::object());

  const ProcessView none = view_of(clean("spare"));
  EXPECT_TRUE(none.lines[3].rates.empty());
  EXPECT_THAT(none.recoveries, IsEmpty());
  EXPECT_THAT(table(none), HasSubstr("spare  all       0  -"));
}

TEST(ProcessView, TimesAreThoseOfTrialsThatRecovered) {
  const ProcessView view = view_of(example());
  // Draw 0 of update and forward kills rank 0; of recovery only draw 2 recovered.
  ASSERT_EQ(view.recoveries.size(), 5U);
  EXPECT_EQ(view.recoveries[0].victims.victim, Victim::rank_0);
  EXPECT_EQ(view.recoveries[0].trials, 1U);
  EXPECT_EQ(view.recoveries[1].phase, "update");
  EXPECT_EQ(view.recoveries[1].trials, 3U);
  EXPECT_EQ(view.recoveries[4].phase, "recovery");
  EXPECT_EQ(view.recoveries[4].trials, 1U);
  EXPECT_DOUBLE_EQ(view.recoveries[4].part(RecoveryPart::total).median, 750);
}

TEST(ProcessView, ConditionsChooseArmsAndPhases) {
  Rows rows = example();
  for (TrialRecord& row : example("other")) rows.push_back(std::move(row));
  const auto spec = spec_of({"spare", "other"});
  EXPECT_EQ(view_of(rows, spec).lines.size(), 8U);
  EXPECT_EQ(view_of(rows, spec).lines[0].arm, "spare");  // as in the spec
  const ProcessView one = view_of(rows, spec, {.where = {"arm=other", "field=forward,update"}});
  ASSERT_EQ(one.lines.size(), 3U);
  EXPECT_EQ(one.lines[0].arm, "other");
  EXPECT_EQ(one.lines[2].trials, 8U);
  EXPECT_DOUBLE_EQ(one.lines[2].rate(RecoveryOutcome::bitwise).estimate, (16 + 24) / 64.0);
  EXPECT_EQ(one.recoveries.size(), 4U);
  EXPECT_THAT(tests::error_of([&] { (void)view_of(rows, spec, {.where = {"field=sleep"}}); }),
              HasSubstr("sleep"));
}

TEST(ProcessView, OfACampaignWhereNoRankFailsIsRefused) {
  const auto spec = testing::spec_of({"serial"});
  const Rows rows = testing::one_arm();
  EXPECT_THAT(tests::error_of([&] { (void)view_of(rows, spec); }),
              HasSubstr("this campaign has no process faults; name the phases"));
}

TEST(ProcessView, TheTableAndTheJsonSayTheSame) {
  const ProcessView view = view_of(example(), spec_of(), {.interval = IntervalKind::clopper_pearson});
  const std::string text = table(view);
  EXPECT_THAT(text, HasSubstr("spare  recovery  4   1 25.0 [0.6, 80.6]"));
  EXPECT_THAT(text, HasSubstr("3 75.0 [19.4, 99.4]"));
  EXPECT_THAT(text, HasSubstr("spare  all       12  7 34.4 ["));
  EXPECT_THAT(text, HasSubstr("Lost in spare: unrecovered 3\n"));
  EXPECT_THAT(text, HasSubstr("spare  update    rank 0        1  250/250"));
  EXPECT_THAT(text, HasSubstr("4.0 KiB"));
  EXPECT_THAT(text, HasSubstr("Clopper-Pearson, for one look, 95 %"));
  const record::Json json = to_json(view);
  EXPECT_EQ(json["schema"], "bitrift/process/1");
  EXPECT_EQ(json["lines"][2]["phase"], "recovery");
  EXPECT_EQ(json["lines"][2]["counts"]["lost"], 3);
  EXPECT_EQ(json["lines"][2]["lost"]["unrecovered"], 3);
  EXPECT_EQ(json["lines"][2]["rates"]["lost"]["estimate"], 0.75);
  EXPECT_EQ(json["lines"][2]["rates"]["lost"]["kind"], "clopper_pearson");
  EXPECT_EQ(json["lines"][3]["phase"], "all");
  EXPECT_EQ(json["recoveries"][0]["victim"], "rank 0");
  EXPECT_EQ(json["recoveries"][0]["total"]["median_ms"], 750);
}

design::CampaignSpec storm_spec() {
  design::CampaignSpec spec = spec_of();
  auto& storms = spec.strata.edit<design::ProcessStrata>();
  storms.phases = {TrainingPhase::forward};
  storms.every = {20, 100};
  return spec;
}

// Controls take 2 s; trial d takes 2 + d seconds.
Rows storm_rows() {
  Rows rows = clean("spare");
  add(rows, "spare", "every_20", record::unbounded_stratum, "bbbbl");
  for (TrialRecord& row : rows) {
    row.seconds = row.kind == TrialKind::trial ? 2 + static_cast<double>(row.id.draw) : 2;
    if (row.kind == TrialKind::trial && row.id.draw == 3) row.faults = {};  // a run without a failure
  }
  return rows;
}

TEST(ProcessView, OfStormsHasGoodputAndNoTotal) {
  const ProcessView view = view_of(storm_rows(), storm_spec());
  ASSERT_EQ(view.lines.size(), 2U);
  EXPECT_EQ(view.lines[0].phase, "every_20");
  EXPECT_THAT(view.lines[0].counts, ElementsAre(4, 0, 0, 1));
  EXPECT_EQ(view.lines[1].trials, 0U);
  ASSERT_EQ(view.recoveries.size(), 1U);
  EXPECT_EQ(view.recoveries[0].victims.victim, Victim::any);
  ASSERT_EQ(view.goodput.size(), 1U);
  EXPECT_EQ(view.goodput[0].trials, 4U);  // the lost one did not run to its end
  EXPECT_DOUBLE_EQ(view.goodput[0].faults, 0.75);
  // Of 1, 2/3, 2/4 and 2/5, with type 7: (2/3 + 1/2) / 2 and 2/5 + 0.15 (1/2 - 2/5).
  EXPECT_DOUBLE_EQ(view.goodput[0].median, 7.0 / 12);
  EXPECT_DOUBLE_EQ(view.goodput[0].low, 0.415);
  const std::string text = table(view);
  EXPECT_THAT(text, HasSubstr("arm    storm      n  recovered bitwise %"));
  EXPECT_THAT(text, HasSubstr("spare  every_20  4  0.75    58.3       41.5"));
  EXPECT_THAT(text, HasSubstr("Lost in spare, every_20: unrecovered 1"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("all: the phases")));
  const record::Json json = to_json(view);
  EXPECT_EQ(json["goodput"][0]["storm"], "every_20");
  EXPECT_EQ(json["recoveries"][0]["victim"], "any rank");
}

TEST(ProcessView, GoodputCountsTheStartsOfJobsThatWereLaunchedAgain) {
  Rows rows = storm_rows();
  for (TrialRecord& row : rows) {
    if (row.kind != TrialKind::trial || !row.result || row.result->recoveries.empty()) continue;
    row.result->recoveries[0].kind = record::RecoveryKind::relaunch;
    row.result->recoveries[0].times.respawn = 8;
  }
  const ProcessView view = view_of(rows, storm_spec());
  // Of 2/10, 2/11, 2/12 and 2/13.
  EXPECT_DOUBLE_EQ(view.goodput.at(0).median, (2.0 / 11 + 2.0 / 12) / 2);
  rows.erase(std::remove_if(rows.begin(), rows.end(),
                            [](const TrialRecord& row) { return row.kind == TrialKind::control; }),
             rows.end());
  const Goodput none = goodput_of("spare", "every_20", {&rows.back()}, rows);
  EXPECT_EQ(none.trials, 0U);
}

}  // namespace
}  // namespace bitrift::analyze::process_view_test
