#include "analyze/across/one_limit.h"

#include <gmock/gmock.h>

#include "analyze/across/gate.h"
#include "analyze/across/gate_report.h"
#include "core/error.h"
#include "unit/analyze/samples.h"

namespace bitrift::analyze::one_limit_test {
namespace {

using record::OutcomeClass;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::sample_with;

constexpr double kError = 0.001;

/// Masked and SDC by the campaign's own limit, `rise` for each draw of the only stratum.
Sample sample_of_rises(const std::vector<double>& rises) {
  Sample sample = sample_with({{1000, rises.size(), 0}});
  SampledCell& cell = sample.cells.at({"serial", "weight.sign"});
  for (std::size_t draw = 0; draw < rises.size(); ++draw) cell.rises[draw] = {rises[draw]};
  return sample;
}

OneLimit limit_of(const Sample& first, const Sample& second) {
  return one_limit({&first, "serial"}, {&second, "serial"}, kError);
}

std::size_t sdcs(const ArmOutcomes& outcomes) {
  const auto& all = outcomes.at("weight.sign");
  return static_cast<std::size_t>(std::count(all.begin(), all.end(), OutcomeClass::sdc));
}

// 60 trials at 0, then these.
std::vector<double> with_harmless(std::vector<double> rises) {
  rises.insert(rises.begin(), 60, 0.0);
  return rises;
}

TEST(OneLimit, IsThatOfTheFirstCampaign) {
  const Sample first = sample_of_rises(with_harmless({0.009, 0.011, 0.03}));
  Sample second = first;
  second.references.at("serial").limit = {0.02};  // its own clean runs were spread wider
  const OneLimit limit = limit_of(first, second);
  EXPECT_EQ(limit.limit, MetricValues{0.01});
  EXPECT_EQ(sdcs(limit.first), 2U);
  EXPECT_EQ(limit.second, limit.first);
  EXPECT_EQ(limit.second_least, limit.first) << "harmless runs that equal the golden run leave nothing open";
  EXPECT_EQ(limit.second_most, limit.first);
  EXPECT_EQ(sdcs(limit_of(second, first).second), 1U);
}

TEST(OneLimit, LeavesCrashesAndRunsEqualToTheGoldenRun) {
  Sample sample = sample_of_rises(with_harmless({0.03, 0.03}));
  SampledCell& cell = sample.cells.at({"serial", "weight.sign"});
  cell.outcomes[60] = OutcomeClass::crash;
  cell.rises[60].clear();
  cell.rises[61].clear();
  const OneLimit limit = limit_of(sample, sample);
  EXPECT_EQ(limit.first.at("weight.sign")[60], OutcomeClass::crash);
  EXPECT_EQ(limit.first.at("weight.sign")[61], OutcomeClass::masked);
}

// The golden run is 0.006 better than the other harmless runs of its order.
TEST(OneLimit, CountsFromTheCentreAndNotFromALuckyGoldenRun) {
  std::vector<double> rises(61, 0.006);
  rises.insert(rises.end(), {0.012, 0.017});
  Sample sample = sample_of_rises(rises);
  sample.references.at("serial").jitter = {std::vector<MetricValues>(30, MetricValues{0.006})};
  EXPECT_EQ(sdcs(limit_of(sample, sample).first), 1U) << "0.012 is 0.006 above the centre";
}

// Trials and jitter runs are spread by 0.001, so the median of 101 trials has a range: with an error of 0.001
// / 4, from the 33rd to the 69th value. P(Binomial(101, 1/2) < 33) is 0.000148, P(... < 34) 0.00032.
TEST(OneLimit, LeavesOpenWhereTheCentreIsNotKnown) {
  std::vector<double> rises;
  for (int i = -50; i <= 50; ++i) rises.push_back(0.00002 * i);
  Sample sample = sample_of_rises(rises);
  std::vector<MetricValues> jitter;
  for (int i = -15; i <= 15; ++i) jitter.push_back({0.00006 * i});
  sample.references.at("serial").jitter = {jitter};
  const OneLimit limit = limit_of(sample, sample);
  EXPECT_NEAR(limit.allowance[0], 2 * 0.00002 * 18, 1e-12);
  EXPECT_GT(limit.miss, 2 * 0.000147);
  EXPECT_LE(limit.miss, kError);
}

TEST(OneLimit, TakesTheCleanRunsWhereAnOrderHasFewJitterRuns) {
  Sample sample = sample_of_rises(with_harmless({0.03}));
  ArmReference& reference = sample.references.at("serial");
  reference.jitter = {std::vector<MetricValues>(2, MetricValues{0})};
  // Rigid trials say where the centre is.
  EXPECT_EQ(limit_of(sample, sample).allowance[0], 0);
  // Trials beyond all clean runs do not: most faults do harm.
  const Sample harmed = sample_of_rises(std::vector<double>(60, 0.05));
  Sample few = harmed;
  few.references.at("serial").jitter = {{}};
  const OneLimit limit = limit_of(few, few);
  EXPECT_GT(limit.allowance[0], 0.005);
  EXPECT_EQ(sdcs(limit.second_least), 60U);
  EXPECT_EQ(sdcs(limit_of(harmed, harmed).first), 60U);
}

TEST(OneLimit, AMetricThatOnlyOneCampaignHasDoesNotCount) {
  Sample first = sample_of_rises(with_harmless({0.03}));
  ArmReference& two = first.references.at("serial");
  two.metrics = {record::Metric::test_accuracy, record::Metric::test_capped_loss};
  two.limit = {0.01, 0.01};
  for (MetricValues& clean : two.clean) clean.push_back(-1);
  two.golden[0].push_back(-1);
  for (MetricValues& jitter : two.jitter[0]) jitter.push_back(0);
  for (MetricValues& rises : first.cells.at({"serial", "weight.sign"}).rises) rises.push_back(1);
  const Sample second = sample_of_rises(with_harmless({0.03}));
  const OneLimit limit = limit_of(first, second);
  EXPECT_EQ(sdcs(limit.second), 1U);
}

TEST(OneLimit, RefusesArmsWithoutACommonMetric) {
  const Sample first = sample_of_rises(with_harmless({0.03}));
  Sample second = first;
  second.references.at("serial").metrics = {record::Metric::test_loss};
  EXPECT_THROW((void)limit_of(first, second), Error);
}

// Of 40 faults just below the limit, each campaign's own clean runs make SDCs or not.
TEST(OneLimit, NewCleanRunsAreNoChangeOfResilience) {
  const Sample baseline = sample_of_rises(with_harmless(std::vector<double>(40, 0.0095)));
  Sample current = baseline;
  current.references.at("serial").limit = {0.009};
  for (std::size_t draw = 60; draw < 100; ++draw)
    current.cells.at({"serial", "weight.sign"}).outcomes[draw] = OutcomeClass::sdc;
  const GateReport report = gate(baseline, current, {});
  EXPECT_EQ(report.verdict(), GateVerdict::passed);
  EXPECT_TRUE(report.flips.empty());
  EXPECT_THAT(text(report), HasSubstr("SDC in arm serial: a fall of test_accuracy by more than 1.00 points"));
  EXPECT_THAT(text(report), Not(HasSubstr("end apart from each other")));
}

TEST(OneLimit, AShiftOfAllRunsIsToldAndDoesNotFail) {
  const Sample baseline = sample_of_rises(with_harmless({0.03}));
  Sample current = baseline;
  ArmReference& reference = current.references.at("serial");
  for (MetricValues& clean : reference.clean) clean[0] += 0.02;
  reference.golden[0][0] += 0.02;
  const GateReport report = gate(baseline, current, {});
  EXPECT_EQ(report.verdict(), GateVerdict::passed);
  EXPECT_THAT(
      text(report),
      HasSubstr("all runs of arm serial end worse: the median test_accuracy of its clean runs is 92.51 %, "
                "in the baseline 94.51 %"));
  EXPECT_EQ(to_json(report)["arms"][0]["shifts"][0]["metric"], "test_accuracy");
  EXPECT_THAT(text(gate(current, baseline, {})), HasSubstr("end better"));
}

TEST(OneLimit, TheTestCountsTheFewestAndTheIntervalHoldsBothEnds) {
  std::vector<double> rises;
  for (int i = -50; i <= 50; ++i) rises.push_back(0.00008 * i);  // up to 0.004
  rises.insert(rises.end(), 20, 0.0115);                         // in doubt
  Sample sample = sample_of_rises(rises);
  std::vector<MetricValues> jitter;
  for (int i = -15; i <= 15; ++i) jitter.push_back({0.00024 * i});
  sample.references.at("serial").jitter = {jitter};
  const OneLimit limit = limit_of(sample, sample);
  EXPECT_EQ(sdcs(limit.second), 20U);
  EXPECT_EQ(sdcs(limit.second_least), 0U);
  const Side side{&sample, "serial"};
  const LimitedDifference difference(side, side, limit, OutcomeClass::sdc);
  EXPECT_EQ(difference.shown().second_hits(), 20U);
  EXPECT_EQ(difference.least().second_hits(), 0U);
  const Interval interval = difference.interval(0.95);
  EXPECT_LT(interval.low, -0.1);
  EXPECT_GE(interval.high, 0);
  EXPECT_EQ(difference.exact_p_above().value(), 1);
  const LimitedDifference masked(side, side, limit, OutcomeClass::masked);
  EXPECT_LE(masked.least().second_hits(), masked.shown().second_hits());
  const LimitedDifference crashes(side, side, limit, OutcomeClass::crash);
  EXPECT_EQ(crashes.miss(), 0);
}

}  // namespace
}  // namespace bitrift::analyze::one_limit_test
