#include "analyze/summary.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "analyze/table.h"
#include "core/error.h"
#include "design/kind/bit_strata.h"
#include "unit/analyze/study.h"

namespace bitrift::analyze::summary_test {
namespace {

using record::OutcomeClass;
using record::Reason;
using record::TrialKind;
using record::TrialRecord;
using testing::add_trials;
using testing::clean_arm;
using ::testing::ElementsAre;
using testing::evaluation;
using testing::group;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::one_arm;
using testing::spec_of;
using Rows = std::vector<TrialRecord>;

ErrorCode code_of(const Rows& rows, const design::CampaignSpec& spec,
                  const std::vector<std::string>& by = {}) {
  try {
    (void)summarize(rows, spec, by);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

TEST(Summary, OneStratumHasThePlainRateAndIntervals) {
  const Summary summary = summarize(one_arm(), spec_of({"serial"}), {"strategy", "stratum"});
  const Group& sign = group(summary, {{"arm", "serial"}, {"stratum", "weight.sign"}});
  EXPECT_EQ(sign.trials, 10U);
  EXPECT_EQ(sign.bits, 1000U);
  EXPECT_EQ(sign.counts.at(OutcomeClass::masked), 5U);
  EXPECT_EQ(sign.counts.at(OutcomeClass::sdc), 4U);
  EXPECT_EQ(sign.counts.at(OutcomeClass::crash), 1U);
  EXPECT_EQ(sign.reasons.at(Reason::bitwise), 5U);
  EXPECT_EQ(sign.reasons.at(Reason::low_test_accuracy), 4U);
  EXPECT_EQ(sign.reasons.at(Reason::nonfinite), 1U);
  const Rate& rate = sign.rates.at(OutcomeClass::sdc);
  EXPECT_EQ(rate.estimate, 0.4);
  EXPECT_EQ(rate.wilson.low, wilson(4, 10, 0.95).low);
  EXPECT_EQ(rate.wilson.high, wilson(4, 10, 0.95).high);
  EXPECT_EQ(rate.anytime.low, anytime_finite(4, 10, 1000, 0.95).low);
  EXPECT_EQ(rate.anytime.high, anytime_finite(4, 10, 1000, 0.95).high);
}

TEST(Summary, PooledStrataAreWeightedByTheirBits) {
  const Summary summary = summarize(one_arm(), spec_of({"serial"}), {"strategy", "field"});
  ASSERT_EQ(summary.groups.size(), 2U);
  const Group& sign = group(summary, {{"arm", "serial"}, {"field", "sign"}});
  EXPECT_EQ(sign.trials, 20U);
  EXPECT_EQ(sign.bits, 1100U);
  const Rate& rate = sign.rates.at(OutcomeClass::sdc);
  EXPECT_NEAR(rate.estimate, 0.4 * 1000 / 1100, 1e-15);
  EXPECT_LE(rate.anytime.low, rate.estimate);
  EXPECT_GE(rate.anytime.high, rate.estimate);
  EXPECT_GT(rate.anytime.high - rate.anytime.low, rate.wilson.high - rate.wilson.low);
  // The effective number of trials, by hand: shrunken rates 5/12 and 1/12, weights 10/11 and 1/11.
  const double w1 = 10.0 / 11, w2 = 1.0 / 11, p1 = 5.0 / 12, p2 = 1.0 / 12;
  const double p = w1 * p1 + w2 * p2;
  const double n = p * (1 - p) / ((w1 * w1 * p1 * (1 - p1) + w2 * w2 * p2 * (1 - p2)) / 10);
  EXPECT_NEAR(rate.wilson.low, wilson(rate.estimate * n, n, 0.95).low, 1e-12);
  EXPECT_NEAR(rate.wilson.high, wilson(rate.estimate * n, n, 0.95).high, 1e-12);
  EXPECT_GT(n, 10);
  EXPECT_LT(n, 20);
}

TEST(Summary, EqualStrataWithoutEventsAreWorthAllTheirTrials) {
  Rows rows = clean_arm("serial");
  add_trials(rows, "serial", "weight.sign", 500, 10, 0, 0);
  add_trials(rows, "serial", "bias.sign", 500, 10, 0, 0);
  design::CampaignSpec spec = spec_of({"serial"});
  spec.strata.edit<design::BitStrata>().fields = {"sign"};
  const Rate rate = summarize(rows, spec, {"strategy"}).groups.at(0).rates.at(OutcomeClass::crash);
  EXPECT_EQ(rate.estimate, 0);
  EXPECT_EQ(rate.wilson.low, 0);
  EXPECT_NEAR(rate.wilson.high, wilson(0, 20, 0.95).high, 1e-12);
  EXPECT_EQ(rate.anytime.low, 0);
}

// Fast crashes come first: counted at once they would show a rate that is too high.
TEST(Summary, RowsBehindAGapWait) {
  Rows rows = one_arm();
  std::erase_if(rows, [](const TrialRecord& row) {
    return row.id.stratum == "weight.sign" && row.id.draw >= 6 && row.id.draw < 9;
  });
  const Summary summary = summarize(rows, spec_of({"serial"}), {"strategy", "stratum"});
  const Group& sign = group(summary, {{"arm", "serial"}, {"stratum", "weight.sign"}});
  EXPECT_EQ(sign.trials, 6U);
  EXPECT_EQ(sign.waiting, 1U);
  EXPECT_EQ(sign.counts.at(OutcomeClass::crash), 0U);
  EXPECT_EQ(summary.waiting, 1U);
  EXPECT_THAT(table(summary), HasSubstr("1 rows are excluded until every earlier draw"));
  EXPECT_EQ(to_json(summary)["waiting"], 1);
}

TEST(Summary, RatesOfTheClassesAddUpToOne) {
  const Summary summary = summarize(one_arm(), spec_of({"serial"}), {"strategy"});
  ASSERT_EQ(summary.groups.size(), 1U);
  double sum = 0;
  for (const auto& [outcome, rate] : summary.groups[0].rates) {
    sum += rate.estimate;
    EXPECT_LE(rate.anytime.low, rate.estimate);
    EXPECT_GE(rate.anytime.high, rate.estimate);
    EXPECT_LE(rate.wilson.low, rate.estimate);
    EXPECT_GE(rate.wilson.high, rate.estimate);
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(Summary, ArmsAreNeverPooled) {
  Rows rows = one_arm();
  const Rows other = clean_arm("data2", 1);
  rows.insert(rows.end(), other.begin(), other.end());
  add_trials(rows, "data2", "weight.sign", 1000, 10, 0, 0);
  const Summary summary = summarize(rows, spec_of({"serial", "data2"}), {"field"});
  EXPECT_THAT(summary.by, ElementsAre(Dimension::strategy, Dimension::field));
  for (const Group& g : summary.groups) EXPECT_TRUE(g.key.contains("arm"));
  EXPECT_EQ(group(summary, {{"arm", "data2"}, {"field", "sign"}}).trials, 10U);
  EXPECT_EQ(summary.trials, 50U);
  EXPECT_EQ(summary.canaries, 6U);
}

TEST(Summary, OnlyTrialsAreCounted) {
  const Summary summary = summarize(clean_arm("serial"), spec_of({"serial"}), {"strategy"});
  EXPECT_EQ(summary.trials, 0U);
  EXPECT_TRUE(summary.groups.empty());
  EXPECT_THAT(table(summary), HasSubstr("Unfinished: 0 of 40 trials"));
}

TEST(Summary, ADimensionGivenTwiceStandsOnce) {
  const Summary summary = summarize(one_arm(), spec_of({"serial"}), {"role", "role", "strategy"});
  EXPECT_THAT(summary.by, ElementsAre(Dimension::strategy, Dimension::role));
  EXPECT_EQ(summary.groups.size(), 2U);
}

TEST(Summary, AFieldThatIsAListKeepsItsName) {
  Rows rows = clean_arm("serial");
  add_trials(rows, "serial", "exp_avg.3,7,30", 100, 1, 0, 0);
  design::CampaignSpec spec = spec_of({"serial"});
  EXPECT_EQ(code_of(rows, spec), ErrorCode::conflict);  // a stratum that is not the campaign's
  spec.strata.edit<design::BitStrata>().roles = {"exp_avg"};
  spec.strata.edit<design::BitStrata>().fields = {"3,7,30"};
  const Summary summary = summarize(rows, spec, {"role", "field"});
  EXPECT_EQ(summary.groups.at(0).key.at("role"), "exp_avg");
  EXPECT_EQ(summary.groups.at(0).key.at("field"), "3,7,30");
}

TEST(Summary, RefusesWhatCannotBeBelieved) {
  const auto spec = spec_of({"serial"});
  EXPECT_EQ(code_of(one_arm(), spec, {"colour"}), ErrorCode::bad_input);
  EXPECT_EQ(code_of(one_arm(), spec, {"layer"}), ErrorCode::bad_input);
  EXPECT_EQ(code_of(one_arm(), spec_of({"serial", "data2"})), ErrorCode::conflict);  // an arm that never ran
  Rows rows = one_arm();
  rows.push_back(rows.back());  // counted twice
  EXPECT_EQ(code_of(rows, spec), ErrorCode::conflict);
  rows = one_arm();
  rows.back().stratum_bits += 1;
  EXPECT_EQ(code_of(rows, spec), ErrorCode::conflict);
  rows = one_arm();
  for (TrialRecord& row : rows) row.stratum_bits = 0;
  EXPECT_EQ(code_of(rows, spec), ErrorCode::conflict);
  rows = clean_arm("serial");
  add_trials(rows, "serial", "weight.sign", 3, 4, 0, 0);  // more draws than bits
  EXPECT_EQ(code_of(rows, spec), ErrorCode::conflict);
  rows = one_arm();
  rows.back().measure = record::Measure::tensor;
  EXPECT_EQ(code_of(rows, spec), ErrorCode::unsupported);
  rows = one_arm();
  rows.back().id.stratum = "weight";  // none of the campaign's
  EXPECT_EQ(code_of(rows, spec), ErrorCode::conflict);
  rows = one_arm();
  std::erase_if(rows, [](const TrialRecord& row) { return row.id.stratum == "canary:negate"; });
  EXPECT_EQ(code_of(rows, spec), ErrorCode::conflict);
}

TEST(Summary, StrataOfDifferentSizeInTwoArmsAreRefused) {
  Rows rows = one_arm();
  const Rows other = clean_arm("data2", 1);
  rows.insert(rows.end(), other.begin(), other.end());
  add_trials(rows, "data2", "weight.sign", 999, 10, 0, 0);
  EXPECT_EQ(code_of(rows, spec_of({"serial", "data2"})), ErrorCode::conflict);
}

// A stratum that was never tried may hold anything: its weight is not part of what is known.
TEST(Summary, StrataWithoutATrialCountAsAnything) {
  Rows rows = clean_arm("serial");
  const Rows other = clean_arm("data2", 1);
  rows.insert(rows.end(), other.begin(), other.end());
  add_trials(rows, "serial", "weight.sign", 600, 10, 0, 0);
  add_trials(rows, "data2", "weight.sign", 600, 10, 0, 0);
  add_trials(rows, "data2", "bias.sign", 400, 10, 0, 0);
  design::CampaignSpec spec = spec_of({"serial", "data2"});
  spec.strata.edit<design::BitStrata>().fields = {"sign"};
  const Summary summary = summarize(rows, spec, {"strategy"});
  const Group& serial = group(summary, {{"arm", "serial"}});
  EXPECT_THAT(serial.unseen, ElementsAre("bias.sign"));
  EXPECT_NEAR(serial.share_seen, 0.6, 1e-12);
  EXPECT_EQ(serial.bits, 1000U);
  const Rate& crash = serial.rates.at(OutcomeClass::crash);
  EXPECT_EQ(crash.estimate, 0);
  EXPECT_GE(crash.anytime.high, 0.4);
  EXPECT_NEAR(crash.wilson.high, 0.4 + 0.6 * wilson(0, 10, 0.95).high, 1e-12);
  EXPECT_LT(group(summary, {{"arm", "data2"}}).rates.at(OutcomeClass::crash).wilson.high, 0.4);
  const std::string text = table(summary);
  EXPECT_THAT(text, HasSubstr("Strata without a trial"));
  EXPECT_THAT(text, HasSubstr("serial: bias.sign (40.0 % of its bits)"));
  EXPECT_EQ(to_json(summary).at("groups").at(1).at("unseen"), record::Json{"bias.sign"});
}

TEST(Summary, AStratumOfUnknownSizeLeavesNothingKnown) {
  Rows rows = clean_arm("serial");
  add_trials(rows, "serial", "weight.sign", 600, 10, 0, 0);
  const Summary summary = summarize(rows, spec_of({"serial"}), {"strategy"});
  EXPECT_EQ(summary.groups.at(0).share_seen, 0);
  EXPECT_EQ(summary.groups.at(0).rates.at(OutcomeClass::crash).anytime.high, 1);
  EXPECT_THAT(table(summary), HasSubstr("of unknown size"));
}

}  // namespace
}  // namespace bitrift::analyze::summary_test
