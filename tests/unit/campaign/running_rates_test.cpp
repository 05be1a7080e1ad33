#include "campaign/progress/running_rates.h"

#include <algorithm>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "analyze/rates/interval.h"
#include "design/kind/model_strata.h"
#include "support.h"

namespace bitrift::campaign::running_rates_test {
namespace {

using record::OutcomeClass;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::row;

// What testing::row gives is bitwise; a worse one is SDC, and one that died a crash.
std::map<std::string, analyze::ArmControls> controls() {
  analyze::ArmControls arm;
  arm.golden = {{"d", {"d"}, testing::result("").replicas[0]}};
  arm.horizon = arm.golden[0].evaluations.size();
  std::vector<analyze::Trajectory> clean(20, arm.golden[0].evaluations);
  double apart = 0;
  for (analyze::Trajectory& run : clean)
    run.back().test_loss = run.back().test_loss.value() + (apart += 0.001);
  arm.calibration.emplace(clean, std::vector<record::Metric>{record::Metric::test_loss}, 0.05, std::nullopt);
  return {{"serial", arm}, {"data-2", arm}};
}

record::TrialRecord trial(const std::string& stratum, std::uint64_t draw, OutcomeClass outcome,
                          const std::string& arm = "serial") {
  record::TrialRecord made = row(arm, stratum, draw);
  made.stratum_bits = stratum == "weight.sign" ? 300 : 100;
  if (outcome == OutcomeClass::sdc) {
    made.result = testing::result(made.id.text(), 0.9);
    made.result->final_digest = "other";
    made.result->replica_digests = {"other"};
  } else if (outcome == OutcomeClass::crash) {
    made.result.reset();
    made.failure = record::Failure{record::FailureReason::signal, "Killed", 9};
  }
  return made;
}

class RunningRatesTest : public ::testing::Test {
 protected:
  design::CampaignSpec spec_ = testing::small_spec();
  RunningRates rates_{spec_, controls()};
};

TEST_F(RunningRatesTest, RowsBehindAGapWait) {
  rates_.add(trial("weight.sign", 0, OutcomeClass::masked));
  rates_.add(trial("weight.sign", 2, OutcomeClass::crash));
  EXPECT_EQ(rates_.trials("serial"), 1U);
  EXPECT_THAT(rates_.lines(), ElementsAre(HasSubstr("crash 0.0 %"), "no trial yet: data-2"));
  rates_.add(trial("weight.sign", 1, OutcomeClass::sdc));
  EXPECT_EQ(rates_.trials("serial"), 3U);
  EXPECT_THAT(rates_.lines(), ElementsAre(HasSubstr("crash 33.3 %"), "no trial yet: data-2"));
  EXPECT_EQ(rates_.trials("data-2"), 0U);
}

TEST_F(RunningRatesTest, ARowThatIsTakenBackMakesAGap) {
  for (std::uint64_t draw = 0; draw < 5; ++draw) rates_.add(trial("weight.sign", draw, OutcomeClass::masked));
  EXPECT_THAT(rates_.lines(),
              ElementsAre(HasSubstr("serial: 5 trials: masked 100.0 %"), "no trial yet: data-2"));
  rates_.remove({"serial", "weight.sign", 2});
  rates_.remove({"serial", "weight.sign", 70});
  rates_.remove({"serial", "nowhere", 0});
  rates_.remove({"nobody", "weight.sign", 0});
  EXPECT_EQ(rates_.trials("serial"), 2U);
  EXPECT_THAT(rates_.lines(),
              ElementsAre(HasSubstr("serial: 2 trials: masked 100.0 %"), "no trial yet: data-2"));
  rates_.add(trial("weight.sign", 2, OutcomeClass::sdc));
  EXPECT_EQ(rates_.trials("serial"), 5U);
  EXPECT_THAT(rates_.lines(), ElementsAre(HasSubstr("SDC 20.0 %"), "no trial yet: data-2"));
}

TEST_F(RunningRatesTest, StrataWeighByTheirBits) {
  rates_.add(trial("weight.sign", 0, OutcomeClass::crash));
  rates_.add(trial("weight.exponent", 0, OutcomeClass::masked));
  EXPECT_THAT(rates_.lines(), ElementsAre(HasSubstr("crash 75.0 %"), "no trial yet: data-2"));
}

TEST_F(RunningRatesTest, AnyOrderOfRowsAndRetractionsEndsAtTheSameRates) {
  std::mt19937 chance(3);  // NOLINT(cert-msc51-cpp,cert-msc32-c): the same order in every run
  const OutcomeClass classes[] = {OutcomeClass::masked, OutcomeClass::sdc, OutcomeClass::crash};
  for (int repeat = 0; repeat < 50; ++repeat) {
    RunningRates in_order(spec_, controls());
    RunningRates shuffled(spec_, controls());
    std::vector<record::TrialRecord> rows;
    for (std::uint64_t draw = 0; draw < 40; ++draw)
      rows.push_back(trial("weight.sign", draw, classes[chance() % 3]));
    for (const auto& one : rows) in_order.add(one);
    std::shuffle(rows.begin(), rows.end(), chance);
    for (const auto& one : rows) {
      shuffled.add(one);
      const auto& back = rows[chance() % rows.size()];
      shuffled.remove(back.id);
    }
    for (const auto& one : rows) shuffled.add(one);  // those that are there stay as they are
    EXPECT_EQ(shuffled.trials("serial"), 40U);
    EXPECT_EQ(shuffled.lines(), in_order.lines());
  }
}

TEST_F(RunningRatesTest, ALineIsComputedAnewWhenItsTrialsHaveGrownByAFiftieth) {
  for (std::uint64_t draw = 0; draw < 100; ++draw)
    rates_.add(trial("weight.sign", draw, OutcomeClass::masked));
  EXPECT_THAT(rates_.lines(), ElementsAre(HasSubstr("serial: 100 trials"), "no trial yet: data-2"));
  rates_.add(trial("weight.sign", 100, OutcomeClass::masked));
  rates_.add(trial("weight.sign", 101, OutcomeClass::masked));
  EXPECT_THAT(rates_.lines(), ElementsAre(HasSubstr("serial: 100 trials"), "no trial yet: data-2"));
  rates_.add(trial("weight.sign", 102, OutcomeClass::masked));
  EXPECT_THAT(rates_.lines(), ElementsAre(HasSubstr("serial: 103 trials"), "no trial yet: data-2"));
}

TEST_F(RunningRatesTest, OnlyTrialsWithAVerdictCount) {
  rates_.add(row("serial", "control", 0, record::TrialKind::control));
  rates_.add(row("unknown", "weight.sign", 0));
  record::TrialRecord longer = trial("weight.sign", 0, OutcomeClass::sdc);
  longer.result->replicas[0].push_back(longer.result->replicas[0][0]);
  rates_.add(longer);
  EXPECT_TRUE(rates_.lines().empty());
}

TEST_F(RunningRatesTest, OneLineForEachArmSaysEveryRateWithItsInterval) {
  rates_.add(trial("weight.sign", 0, OutcomeClass::crash, "data-2"));
  for (std::uint64_t draw = 0; draw < 10; ++draw)
    rates_.add(trial("weight.sign", draw, draw < 5 ? OutcomeClass::masked : OutcomeClass::sdc));
  const auto lines = rates_.lines();
  // The stratum weight.exponent has no trial and its size is not known before a round says it.
  EXPECT_THAT(lines,
              ElementsAre("serial: 10 trials: masked 50.0 % (0.0 to 100.0), SDC 50.0 % (0.0 to 100.0), "
                          "crash 0.0 % (0.0 to 100.0); no trial yet in 3 of 4 strata",
                          HasSubstr("data-2: 1 trial: masked 0.0 %")));
  record::Round round;
  round.strata = {{{"weight.sign", "weight", "sign", 300}, 0, 10, 0}};
  rates_.set_rounds({round});
  const analyze::Interval half = analyze::anytime_finite(5, 10, 300, spec_.confidence);
  const analyze::Interval none = analyze::anytime_finite(0, 10, 300, spec_.confidence);
  EXPECT_EQ(
      rates_.lines().at(0),
      fmt::format("serial: 10 trials: masked 50.0 % ({0:.1f} to {1:.1f}), SDC 50.0 % ({0:.1f} to {1:.1f}), "
                  "crash 0.0 % (0.0 to {2:.1f})",
                  100 * half.low, 100 * half.high, 100 * none.high));
}

TEST_F(RunningRatesTest, FaultModelsAreNotAveraged) {
  spec_.strata.edit<design::ModelStrata>().models = {{"zero", {}}, {"burst", {}}};
  rates_.add(trial("zero", 0, OutcomeClass::crash));
  rates_.add(trial("burst", 0, OutcomeClass::masked));
  EXPECT_THAT(rates_.lines(), ElementsAre(HasSubstr("serial zero: 1 trial: masked 0.0 %"),
                                          HasSubstr("serial burst: 1 trial: masked 100.0 %"),
                                          "no trial yet: data-2 zero, data-2 burst"));
}

TEST_F(RunningRatesTest, ArmsWithoutATrialAreNamedOnceOthersHaveOne) {
  EXPECT_TRUE(rates_.lines().empty());
  for (int i = 0; i < 9; ++i) spec_.arms.push_back({"arm" + std::to_string(i), {}});
  rates_.add(trial("weight.sign", 0, OutcomeClass::masked));
  EXPECT_EQ(rates_.lines().back(),
            "no trial yet: data-2, arm0, arm1, arm2, arm3, arm4, arm5, arm6 and 2 more");
}

TEST_F(RunningRatesTest, ManyArmsAreCutToEightLines) {
  auto many = controls();
  for (int i = 0; i < 10; ++i) {
    spec_.arms.push_back({"arm" + std::to_string(i), {}});
    many["arm" + std::to_string(i)] = many["serial"];
  }
  RunningRates rates(spec_, many);
  for (const design::Arm& arm : spec_.arms)
    rates.add(trial("weight.sign", 0, OutcomeClass::masked, arm.name));
  const auto lines = rates.lines();
  EXPECT_EQ(lines.size(), 9U);
  EXPECT_EQ(lines.back(), "and 4 more");
}

}  // namespace
}  // namespace bitrift::campaign::running_rates_test
