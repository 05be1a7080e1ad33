#include "analyze/summary.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "core/error.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;
using record::Reason;
using record::TrialKind;
using record::TrialRecord;
using testing::clean_arm;
using ::testing::ElementsAre;
using testing::evaluation;
using ::testing::HasSubstr;
using ::testing::Not;
using Rows = std::vector<TrialRecord>;

record::CampaignSpec spec_of(const std::vector<std::string>& arms) {
  record::CampaignSpec spec;
  spec.name = "hand";
  spec.seed = 42;
  for (const std::string& arm : arms) spec.arms.push_back({arm, {}});
  spec.strata.roles = {"weight", "bias"};
  spec.strata.fields = {"sign", "exponent"};
  spec.trials_per_stratum = 10;
  return spec;
}

// `masked`, `sdc` and `crash` trials of one stratum, in this order of draws.
void add_trials(Rows& rows, const std::string& arm, const std::string& stratum, std::uint64_t bits,
                int masked, int sdc, int crash) {
  for (int i = 0; i < masked + sdc + crash; ++i) {
    const bool golden = i < masked;
    TrialRecord row = testing::finished(TrialKind::trial, arm, stratum, static_cast<std::uint64_t>(i),
                                        {{evaluation(1, 0.1, 0.97, 0.2, golden ? 0.95 : 0.1)}},
                                        golden ? "golden" : "other");
    if (i >= masked + sdc) row.result->status = "nonfinite";
    row.stratum_bits = bits;
    rows.push_back(row);
  }
}

Rows one_arm() {
  Rows rows = clean_arm("serial");
  add_trials(rows, "serial", "weight.sign", 1000, 5, 4, 1);
  add_trials(rows, "serial", "bias.sign", 100, 10, 0, 0);
  add_trials(rows, "serial", "weight.exponent", 8000, 2, 3, 5);
  add_trials(rows, "serial", "bias.exponent", 800, 8, 1, 1);
  return rows;
}

const Group& group(const Summary& summary, const std::map<std::string, std::string>& key) {
  for (const Group& candidate : summary.groups) {
    if (candidate.key == key) return candidate;
  }
  throw std::logic_error("no such group");
}

ErrorCode code_of(const Rows& rows, const record::CampaignSpec& spec,
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
  EXPECT_EQ(rate.fixed.low, wilson(4, 10, 0.95).low);
  EXPECT_EQ(rate.fixed.high, wilson(4, 10, 0.95).high);
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
  EXPECT_GT(rate.anytime.high - rate.anytime.low, rate.fixed.high - rate.fixed.low);
  // The effective number of trials, by hand: shrunken rates 5/12 and 1/12, weights 10/11 and 1/11.
  const double w1 = 10.0 / 11, w2 = 1.0 / 11, p1 = 5.0 / 12, p2 = 1.0 / 12;
  const double p = w1 * p1 + w2 * p2;
  const double n = p * (1 - p) / ((w1 * w1 * p1 * (1 - p1) + w2 * w2 * p2 * (1 - p2)) / 10);
  EXPECT_NEAR(rate.fixed.low, wilson(rate.estimate * n, n, 0.95).low, 1e-12);
  EXPECT_NEAR(rate.fixed.high, wilson(rate.estimate * n, n, 0.95).high, 1e-12);
  EXPECT_GT(n, 10);
  EXPECT_LT(n, 20);
}

TEST(Summary, EqualStrataWithoutEventsAreWorthAllTheirTrials) {
  Rows rows = clean_arm("serial");
  add_trials(rows, "serial", "weight.sign", 500, 10, 0, 0);
  add_trials(rows, "serial", "bias.sign", 500, 10, 0, 0);
  const Rate rate =
      summarize(rows, spec_of({"serial"}), {"strategy"}).groups.at(0).rates.at(OutcomeClass::crash);
  EXPECT_EQ(rate.estimate, 0);
  EXPECT_EQ(rate.fixed.low, 0);
  EXPECT_NEAR(rate.fixed.high, wilson(0, 20, 0.95).high, 1e-12);
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
  EXPECT_THAT(table(summary), HasSubstr("1 rows wait behind a draw"));
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
    EXPECT_LE(rate.fixed.low, rate.estimate);
    EXPECT_GE(rate.fixed.high, rate.estimate);
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(Summary, ArmsAreNeverPooled) {
  Rows rows = one_arm();
  const Rows other = clean_arm("data2", 1);
  rows.insert(rows.end(), other.begin(), other.end());
  add_trials(rows, "data2", "weight.sign", 1000, 10, 0, 0);
  const Summary summary = summarize(rows, spec_of({"serial", "data2"}), {"field"});
  EXPECT_THAT(summary.by, ElementsAre("strategy", "field"));
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
  EXPECT_THAT(summary.by, ElementsAre("strategy", "role"));
  EXPECT_EQ(summary.groups.size(), 2U);
}

TEST(Summary, AFieldThatIsAListKeepsItsName) {
  Rows rows = clean_arm("serial");
  add_trials(rows, "serial", "exp_avg.3,7,30", 100, 1, 0, 0);
  record::CampaignSpec spec = spec_of({"serial"});
  EXPECT_EQ(code_of(rows, spec), ErrorCode::conflict);  // a stratum that is not the campaign's
  spec.strata.roles = {"exp_avg"};
  spec.strata.fields = {"3,7,30"};
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
  rows.back().measure = "tensor";
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

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t start = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

TEST(Table, IsAlignedUnderOneHeader) {
  const auto lines = lines_of(table(summarize(one_arm(), spec_of({"serial"}), {"strategy", "field"})));
  ASSERT_GE(lines.size(), 8U);
  EXPECT_EQ(lines[0],
            "arm     field      n  masked %             SDC %                crash %              interval");
  EXPECT_THAT(lines[1], HasSubstr("serial  exponent  20   25.5 ["));
  EXPECT_TRUE(lines[1].ends_with("Wilson"));
  EXPECT_TRUE(lines[2].starts_with("                            ["));
  EXPECT_TRUE(lines[2].ends_with("anytime"));
  EXPECT_EQ(lines[1].find('['), lines[2].find('['));
  EXPECT_THAT(lines[3], HasSubstr("serial  sign      20   54.5 ["));
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 100U) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

TEST(Table, CountsTheReasonsOfEachClass) {
  const std::string text = table(summarize(one_arm(), spec_of({"serial"}), {"strategy", "field"}));
  EXPECT_THAT(text, HasSubstr("masked 10 = bitwise 10; SDC 4 = low_test_accuracy 4; crash 6 = nonfinite 6"));
  EXPECT_THAT(text, HasSubstr("40 trials, 3 canaries as expected"));
  EXPECT_THAT(text, HasSubstr("Intervals of 95 %"));
  EXPECT_THAT(text, Not(HasSubstr("Unfinished")));
}

TEST(SummaryJson, HoldsEveryNumberOfTheTable) {
  const Summary summary = summarize(one_arm(), spec_of({"serial"}), {"strategy", "field"});
  const record::Json json = to_json(summary);
  EXPECT_EQ(json.at("schema"), "bitrift/summary/1");
  EXPECT_EQ(json.at("campaign"), "hand");
  EXPECT_EQ(json.at("seed"), 42);
  EXPECT_EQ(json.at("confidence"), 0.95);
  EXPECT_EQ(json.at("judge"), "worst");
  EXPECT_EQ(json.at("by"), (record::Json{"strategy", "field"}));
  EXPECT_EQ(json.at("trials"), 40);
  EXPECT_EQ(json.at("planned"), 40);
  EXPECT_EQ(json.at("canaries"), 3);
  const record::Json& sign = json.at("groups").at(1);
  EXPECT_EQ(sign.at("key"), (record::Json{{"arm", "serial"}, {"field", "sign"}}));
  EXPECT_EQ(sign.at("trials"), 20);
  EXPECT_EQ(sign.at("bits"), 1100);
  EXPECT_EQ(sign.at("counts"), (record::Json{{"masked", 15}, {"SDC", 4}, {"crash", 1}}));
  EXPECT_EQ(sign.at("reasons"), (record::Json{{"bitwise", 15}, {"low_test_accuracy", 4}, {"nonfinite", 1}}));
  const Rate& rate = summary.groups[1].rates.at(OutcomeClass::masked);
  const record::Json& masked = sign.at("rates").at("masked");
  EXPECT_EQ(masked.at("estimate").get<double>(), rate.estimate);
  EXPECT_EQ(masked.at("wilson"), (record::Json{rate.fixed.low, rate.fixed.high}));
  EXPECT_EQ(masked.at("anytime"), (record::Json{rate.anytime.low, rate.anytime.high}));
}

}  // namespace
}  // namespace bitrift::analyze
