// A summary as text and as JSON.
#include "analyze/table.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "core/error.h"
#include "unit/analyze/study.h"

namespace bitrift::analyze::table_test {
namespace {

using record::OutcomeClass;
using testing::add_trials;
using testing::clean_arm;
using testing::group;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::one_arm;
using testing::spec_of;
using Rows = std::vector<record::TrialRecord>;

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
            "arm     field      n  masked %            SDC %               crash %             harmful %");
  EXPECT_THAT(lines[1], HasSubstr("serial  exponent  20   25.5 ["));
  EXPECT_THAT(lines[2], HasSubstr("serial  sign      20   54.5 ["));
  EXPECT_EQ(lines[1].find('['), lines[2].find('['));
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 100U) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

TEST(Table, CountsTheReasonsOfEachClass) {
  const std::string text = table(summarize(one_arm(), spec_of({"serial"}), {"strategy", "field"}));
  EXPECT_THAT(text, HasSubstr("SDC 4 of 20 (weighted by bits: 28.2 %) = low_test_accuracy 4;\n"));
  const std::string strata = table(summarize(one_arm(), spec_of({"serial"}), {"strategy", "stratum"}));
  EXPECT_THAT(strata, HasSubstr("masked 2 = bitwise 2; SDC 3 = low_test_accuracy 3; crash 5 = nonfinite 5"));
  EXPECT_THAT(text, HasSubstr("40 trials, 3 canaries as expected"));
  EXPECT_THAT(text, HasSubstr("Intervals valid at every look."));
  EXPECT_THAT(text, HasSubstr("Each of them alone holds with 95 % confidence"));
  EXPECT_THAT(text, Not(HasSubstr("Strata without a trial")));
  EXPECT_THAT(text, Not(HasSubstr("Unfinished")));
}

TEST(Table, ExpectsEventsFromAFieldRateForEachArm) {
  Rows rows = clean_arm("serial");
  add_trials(rows, "serial", "weight.exponent", 9000, 4, 0, 0);
  add_trials(rows, "serial", "bias.exponent", 1000, 0, 0, 2);
  SummaryOptions options;
  options.field_rate = 200;
  const Summary summary = summarize(rows, spec_of({"serial"}), {"strategy", "stratum"}, {}, options);
  const Summary arm = summarize(rows, spec_of({"serial"}), {"strategy"});
  const Rate& crash = arm.groups.at(0).rates.at(OutcomeClass::crash);
  const std::string text = table(summary);
  EXPECT_THAT(text,
              HasSubstr("\nExpected in 1,000 GPU-days with 200 such faults (a rate that you gave, taken "
                        "as exact):\narm     n  masked "));
  EXPECT_THAT(text,
              HasSubstr(fmt::format("serial  6  180 [{:.3g}, ",
                                    200 * arm.groups.at(0).rates.at(OutcomeClass::masked).anytime.low)));
  EXPECT_THAT(text, HasSubstr(fmt::format("20 [{:.3g}, {:.0f}]\n", 200 * crash.anytime.low,
                                          200 * crash.anytime.high)));
  for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 100U) << line;
  const record::Json field = to_json(summary)["field"];
  EXPECT_EQ(field["faults"], 200);
  EXPECT_EQ(field["gpu_days"], 1000);
  ASSERT_EQ(field["groups"].size(), 1U);
  EXPECT_EQ(field["groups"][0]["expected"]["crash"]["estimate"], 200 * crash.estimate);
  EXPECT_EQ(field["groups"][0]["expected"]["crash"]["interval"][1], 200 * crash.anytime.high);
  EXPECT_FALSE(to_json(arm).contains("field"));
  // Bonferroni counts these three intervals, too, beside four of each of the four strata.
  options.simultaneous = true;
  const Summary together = summarize(rows, spec_of({"serial"}), {"strategy", "stratum"}, {}, options);
  options.field_rate.reset();
  const Summary without = summarize(rows, spec_of({"serial"}), {"strategy", "stratum"}, {}, options);
  EXPECT_NEAR((1 - without.each_confidence) * 16, (1 - together.each_confidence) * 19, 1e-12);
}

TEST(Table, SaysWhereARateIsNotTheShareOfTheTrials) {
  Rows rows = clean_arm("serial");
  add_trials(rows, "serial", "weight.exponent", 9000, 4, 0, 0);
  add_trials(rows, "serial", "bias.exponent", 1000, 0, 0, 2);
  const std::string weighted = table(summarize(rows, spec_of({"serial"}), {"strategy", "field"}));
  EXPECT_THAT(weighted, HasSubstr("masked 4 of 6 (weighted by bits: 90.0 %) = bitwise 4;\n"));
  EXPECT_THAT(weighted, HasSubstr("crash 2 of 6 (weighted by bits: 10.0 %) = nonfinite 2\n"));
  const std::string alone = table(summarize(rows, spec_of({"serial"}), {"strategy", "stratum"}));
  EXPECT_THAT(alone, Not(HasSubstr("weighted by")));
  // Hits in few of the bits are not shown as none.
  Rows few = clean_arm("serial");
  add_trials(few, "serial", "weight.exponent", 9'999'000, 4, 0, 0);
  add_trials(few, "serial", "bias.exponent", 1000, 0, 0, 2);
  const std::string rare = table(summarize(few, spec_of({"serial"}), {"strategy", "field"}));
  EXPECT_THAT(rare, HasSubstr("serial  exponent  6  >99.9 ["));
  EXPECT_THAT(rare, HasSubstr("]   <0.1 ["));
  EXPECT_THAT(rare, HasSubstr("crash 2 of 6 (weighted by bits: <0.1 %)"));
}

TEST(Table, SplitsALineWhoseStrataDifferByMoreThanTheirIntervals) {
  Rows rows = clean_arm("serial");
  add_trials(rows, "serial", "weight.exponent", 9000, 0, 0, 30);
  add_trials(rows, "serial", "bias.exponent", 1000, 30, 0, 0);
  add_trials(rows, "serial", "weight.sign", 9000, 30, 0, 0);
  add_trials(rows, "serial", "bias.sign", 1000, 30, 0, 0);
  const Summary summary = summarize(rows, spec_of({"serial"}), {"strategy", "field"});
  const std::string text = table(summary);
  EXPECT_THAT(text, HasSubstr("Means of strata that differ by more than their intervals"));
  EXPECT_THAT(text, HasSubstr("serial  exponent  weight.exponent  30    0.0 ["));
  EXPECT_THAT(text, HasSubstr("serial  exponent  bias.exponent    30  100.0 ["));
  EXPECT_THAT(text, Not(HasSubstr("weight.sign      30")));
  const record::Json json = to_json(summary);
  const record::Json& apart = json.at("groups").at(0).at("apart");
  ASSERT_EQ(apart.size(), 2U);
  const record::Json& weight = apart.at(apart.at(0).at("stratum") == "weight.exponent" ? 0 : 1);
  EXPECT_EQ(weight.at("trials"), 30);
  EXPECT_EQ(weight.at("counts").at("crash"), 30);
  EXPECT_EQ(weight.at("rates").at("crash").at("estimate"), 1.0);
  EXPECT_FALSE(json.at("groups").at(1).contains("apart"));
  // Each stratum's interval is the one of its own line.
  const Summary alone = summarize(rows, spec_of({"serial"}), {"strategy", "stratum"});
  const Rate& own =
      group(alone, {{"arm", "serial"}, {"stratum", "weight.exponent"}}).rates.at(OutcomeClass::crash);
  EXPECT_EQ(weight.at("rates").at("crash").at("anytime"), (record::Json{own.anytime.low, own.anytime.high}));
  // Intervals that hold together do not count those of the strata.
  const Summary together =
      summarize(rows, spec_of({"serial"}), {"strategy", "field"}, {}, {.simultaneous = true});
  EXPECT_TRUE(together.groups.front().apart.empty());
}

TEST(Table, DoesNotSplitWhereTheIntervalsOverlap) {
  const Summary summary = summarize(one_arm(), spec_of({"serial"}), {"strategy", "field"});
  EXPECT_THAT(table(summary), Not(HasSubstr("Means of strata")));
  for (const Group& one : summary.groups) EXPECT_TRUE(one.apart.empty());
}

TEST(SummaryJson, HoldsEveryNumberOfTheTable) {
  const Summary summary = summarize(one_arm(), spec_of({"serial"}), {"strategy", "field"});
  const record::Json json = to_json(summary);
  EXPECT_EQ(json.at("schema"), "bitrift/summary/2");
  EXPECT_EQ(json.at("campaign"), "hand");
  EXPECT_EQ(json.at("seed"), 42);
  EXPECT_EQ(json.at("confidence"), 0.95);
  EXPECT_EQ(json.at("judging").at("judge"), "worst");
  EXPECT_EQ(json.at("judging").at("rule"), 2);
  EXPECT_EQ(json.at("judging").at("horizon"), 1);
  EXPECT_EQ(json.at("arms").at("serial").at("envelope_runs"), 20);
  EXPECT_DOUBLE_EQ(json.at("arms").at("serial").at("level").get<double>(), 1.0 / 21);
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
  EXPECT_EQ(masked.at("wilson"), (record::Json{rate.wilson.low, rate.wilson.high}));
  EXPECT_EQ(masked.at("anytime"), (record::Json{rate.anytime.low, rate.anytime.high}));
  EXPECT_EQ(masked.at("interval"), masked.at("anytime"));
  EXPECT_EQ(masked.at("kind"), "anytime");
  EXPECT_EQ(masked.at("confidence"), 0.95);
  EXPECT_EQ(json.at("simultaneous"), false);
  EXPECT_FALSE(sign.contains("effects"));
}

TEST(Summary, StrataWhoseTrialsAreAllBitwiseArePointedOut) {
  const Summary summary = summarize(one_arm(), spec_of({"serial"}), {"strategy"});
  const std::string text = table(summary);
  EXPECT_THAT(text, HasSubstr("All trials bitwise: serial bias.sign (10)\n"));
  EXPECT_THAT(text, HasSubstr("what they alter does not matter, or the trainer does not read it"));
  const record::Json expected = {{{"arm", "serial"}, {"stratum", "bias.sign"}, {"trials", 10}}};
  EXPECT_EQ(to_json(summary).at("all_bitwise"), expected);
  Rows rows = clean_arm("serial");
  add_trials(rows, "serial", "weight.sign", 1000, 4, 0, 0);
  add_trials(rows, "serial", "weight.exponent", 1000, 9, 1, 0);
  const Summary few = summarize(rows, spec_of({"serial"}), {"strategy"});
  EXPECT_THAT(table(few), Not(HasSubstr("All trials bitwise")));
  EXPECT_FALSE(to_json(few).contains("all_bitwise"));
}

TEST(Summary, TheTableSaysWhatItCanSee) {
  const std::string text = table(summarize(one_arm(), spec_of({"serial"}), {"strategy"}));
  EXPECT_THAT(text, HasSubstr("Judged at evaluation 1 of 1 (20 steps after the resume)"));
  EXPECT_THAT(text, HasSubstr("at most 4.8 % of clean runs are called SDC; 14 % given this calibration"));
  EXPECT_THAT(text, HasSubstr("no held-out run, so the false-SDC rate was not measured"));
  EXPECT_THAT(text, HasSubstr("blind to falls of test_accuracy below"));
}

TEST(SummaryOptions, TheIntervalAskedForIsShown) {
  for (const auto kind : {IntervalKind::wilson, IntervalKind::clopper_pearson}) {
    const Summary summary =
        summarize(one_arm(), spec_of({"serial"}), {"strategy", "stratum"}, {}, {.interval = kind});
    const Group& sign = group(summary, {{"arm", "serial"}, {"stratum", "weight.sign"}});
    const Interval expected =
        kind == IntervalKind::wilson ? wilson(4, 10, 0.95) : clopper_pearson(4, 10, 0.95);
    const std::string shown = fmt::format("{:.1f},{:5.1f}]", 100 * expected.low, 100 * expected.high);
    EXPECT_THAT(table(summary), HasSubstr(shown));
    EXPECT_THAT(table(summary), HasSubstr("for one look at this n"));
    const record::Json json = to_json(summary);
    EXPECT_EQ(json.at("groups").at(3).at("rates").at("SDC").at("interval"),
              (record::Json{expected.low, expected.high}));
    EXPECT_EQ(json.at("groups").at(3).at("rates").at("SDC").at("kind"), name_of(kind));
    EXPECT_EQ(sign.rates.at(OutcomeClass::sdc).interval(kind).low, expected.low);
  }
  EXPECT_THROW((void)interval_kind("wald"), Error);
}

TEST(SummaryOptions, SimultaneousIntervalsShareTheErrorProbability) {
  const Summary summary =
      summarize(one_arm(), spec_of({"serial"}), {"strategy", "stratum"}, {}, {.simultaneous = true});
  EXPECT_NEAR(summary.each_confidence, 1 - 0.05 / 16,
              1e-12);  // four strata; three rates and the harmful one each
  const Rate& rate =
      group(summary, {{"arm", "serial"}, {"stratum", "weight.sign"}}).rates.at(OutcomeClass::sdc);
  EXPECT_EQ(rate.anytime.high, anytime_finite(4, 10, 1000, 1 - 0.05 / 16).high);
  EXPECT_THAT(table(summary), HasSubstr("hold together with 95 %"));
  EXPECT_EQ(to_json(summary).at("simultaneous"), true);
  // Lines that have no trial yet will come: their number must not depend on what was seen.
  Rows rows = clean_arm("serial");
  add_trials(rows, "serial", "weight.sign", 1000, 5, 4, 1);
  const Summary early =
      summarize(rows, spec_of({"serial"}), {"strategy", "stratum"}, {}, {.simultaneous = true});
  EXPECT_EQ(early.groups.size(), 1U);
  EXPECT_EQ(early.each_confidence, summary.each_confidence);
  const Summary both = summarize(one_arm(), spec_of({"serial"}), {"strategy", "stratum"}, {},
                                 {.simultaneous = true, .effects = true});
  EXPECT_NEAR(both.each_confidence, 1 - 0.05 / (4 * 10), 1e-12);
  EXPECT_NEAR(both.groups[0].effects->confidence, 1 - 6 * 0.05 / 40, 1e-12);
}

TEST(Summary, LossesOfAccuracyStandBesideTheRates) {
  const Summary summary =
      summarize(one_arm(), spec_of({"serial"}), {"strategy", "stratum"}, {}, {.effects = true});
  const Group& sign = group(summary, {{"arm", "serial"}, {"stratum", "weight.sign"}});
  // Four trials at an accuracy of 0.1 against 0.95, one crash.
  ASSERT_TRUE(sign.effects.has_value());
  for (const Effect& effect : sign.effects->beyond) EXPECT_NEAR(effect.estimate, 0.4, 1e-12);
  EXPECT_NEAR(sign.effects->crash, 0.1, 1e-12);
  EXPECT_EQ(sign.effects->confidence, 0.95);
  const auto lines = lines_of(table(summary));
  EXPECT_NE(std::find_if(lines.begin(), lines.end(),
                         [](const std::string& line) {
                           return line.starts_with("serial  weight.sign") && line.ends_with("40.0      10.0");
                         }),
            lines.end())
      << table(summary);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 100U) << line;
  const record::Json json = to_json(summary).at("groups").at(3).at("effects");
  EXPECT_EQ(json.at("beyond").size(), effect_points.size());
  EXPECT_EQ(json.at("beyond").at(5).at("points"), 10);
}

}  // namespace
}  // namespace bitrift::analyze::table_test
