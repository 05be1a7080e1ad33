#include "analyze/across/gate.h"

#include <gmock/gmock.h>

#include "analyze/across/gate_report.h"
#include "core/error.h"
#include "unit/analyze/samples.h"

namespace bitrift::analyze::gate_test {
namespace {

using record::OutcomeClass;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::sample_with;

GateRules only_sdc(double tolerance = 0) {
  GateRules rules;
  rules.families.front().outcomes = {OutcomeClass::sdc};
  rules.families.front().tolerance = tolerance;
  return rules;
}

std::string refusal(const Sample& baseline, const Sample& current, const GateRules& rules = {}) {
  try {
    (void)gate(baseline, current, rules);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "";
}

GateRules rules_from(const std::string& text) {
  return gate_rules_from(record::parse_text(text, "gate.json"));
}

std::string rules_refusal(const std::string& text) {
  try {
    (void)rules_from(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "";
}

TEST(Gate, PassesWhenNothingChanged) {
  const Sample sample = sample_with({{1000, 100, 10}, {9000, 100, 20}});
  const GateReport report = gate(sample, sample, {});
  EXPECT_EQ(report.verdict(), GateVerdict::passed);
  ASSERT_EQ(report.lines.size(), 2U);
  EXPECT_EQ(report.lines[0].test, GateTest::mcnemar);
  EXPECT_EQ(report.pairs, 200U);
  EXPECT_TRUE(report.flips.empty());
  EXPECT_THAT(text(report), HasSubstr("Passed: no increase of harm is shown."));
}

TEST(Gate, FailsWhenTheSameFaultsDoMoreHarm) {
  const Sample baseline = sample_with({{1000, 100, 10}, {9000, 100, 20}});
  Sample current = sample_with({{1000, 100, 10}, {9000, 100, 40}});
  current.cells.at({"serial", "weight.sign"}).outcomes[0] = OutcomeClass::masked;
  const GateReport report = gate(baseline, current, {});
  EXPECT_EQ(report.verdict(), GateVerdict::worse);
  EXPECT_EQ(report.lines[0].verdict, GateVerdict::worse);   // SDC
  EXPECT_EQ(report.lines[1].verdict, GateVerdict::passed);  // crash
  EXPECT_DOUBLE_EQ(report.lines[0].p, exact_mcnemar_greater(1, 20) + report.arms[0].limit.miss);
  EXPECT_DOUBLE_EQ(report.lines[0].adjusted_p, 2 * report.lines[0].p);
  ASSERT_EQ(report.flips.size(), 21U);
  EXPECT_EQ(report.flips.front().id.text(), "serial/weight.exponent/20");
  EXPECT_TRUE(report.flips.front().worse());
  EXPECT_FALSE(report.flips.back().worse());
  EXPECT_THAT(text(report), HasSubstr("20 end worse, 1 end better"));
  EXPECT_THAT(text(report), HasSubstr("Worse: harm has increased in 1 of 2 lines (SDC, arm serial)."));
}

TEST(Gate, DoesNotFailForAnImprovement) {
  const Sample baseline = sample_with({{1000, 100, 10}, {9000, 100, 90}});
  const Sample current = sample_with({{1000, 100, 10}, {9000, 100, 10}});
  EXPECT_EQ(gate(baseline, current, {}).verdict(), GateVerdict::passed);
}

// `visible` is where the verdict turns.
TEST(Gate, FailsFromTheIncreaseOnThatItStates) {
  const std::uint64_t draws = 200;
  for (const std::uint32_t faults : {1U, 2U}) {  // the same as in the baseline, and others
    const Sample baseline = sample_with({{1000, draws, 12}}, 1);
    const double visible =
        gate(baseline, sample_with({{1000, draws, 12}}, faults), only_sdc()).lines[0].visible;
    const auto more = static_cast<std::uint64_t>(std::lround(visible * static_cast<double>(draws)));
    ASSERT_GT(more, 1U);
    const auto with = [&](std::uint64_t hits) {
      return gate(baseline, sample_with({{1000, draws, hits}}, faults), only_sdc()).verdict();
    };
    EXPECT_EQ(with(12 + more), GateVerdict::worse);
    EXPECT_EQ(with(12 + more - 1), GateVerdict::passed);
  }
}

// 24 of 40 pairs are hits already: 16 more are too few against 7 that end better.
TEST(Gate, SaysThatNoIncreaseWouldFailWhereThereIsNoRoom) {
  const Sample baseline = sample_with({{1000, 40, 24}});
  Sample current = baseline;
  auto& outcomes = current.cells.at({"serial", "weight.sign"}).outcomes;
  for (std::size_t draw = 0; draw < 7; ++draw) outcomes[draw] = OutcomeClass::masked;
  GateRules strict = only_sdc();
  strict.alpha = 0.01;
  EXPECT_EQ(gate(baseline, current, strict).lines[0].visible, 1);
  strict.alpha = 0.001;
  // Other faults: of 160 trials 151 are hits, 9 more are all there can be.
  EXPECT_EQ(
      gate(sample_with({{1000, 160, 151}}, 1), sample_with({{1000, 160, 151}}, 2), strict).lines[0].visible,
      1);
}

TEST(Gate, AcceptsAnIncreaseWithinTheTolerance) {
  const Sample baseline = sample_with({{1000, 400, 20}});
  const Sample current = sample_with({{1000, 400, 60}});
  EXPECT_EQ(gate(baseline, current, only_sdc()).verdict(), GateVerdict::worse);
  const GateReport accepted = gate(baseline, current, only_sdc(0.1));
  EXPECT_EQ(accepted.lines[0].test, GateTest::interval);
  EXPECT_EQ(accepted.lines[0].p, 1);
  EXPECT_EQ(accepted.verdict(), GateVerdict::passed);
  EXPECT_EQ(gate(baseline, current, only_sdc(0.02)).verdict(), GateVerdict::worse);
}

TEST(Gate, IsUndecidedWhenALargeIncreaseCouldPassUnseen) {
  const Sample few = sample_with({{1000, 20, 1}});
  GateRules rules = only_sdc();
  rules.families.front().must_see = 0.05;
  const GateReport report = gate(few, few, rules);
  EXPECT_EQ(report.verdict(), GateVerdict::undecided);
  EXPECT_THAT(text(report), HasSubstr("Undecided: no increase is shown"));
  rules.families.front().must_see = 0.5;
  EXPECT_EQ(gate(few, few, rules).verdict(), GateVerdict::passed);
}

TEST(Gate, UsesIntervalsWhereDrawsDependedOnOutcomes) {
  Sample baseline = sample_with({{1000, 100, 10}});
  baseline.spec.sampling = record::Sampling{};
  Sample current = baseline;
  EXPECT_EQ(gate(baseline, current, only_sdc()).lines[0].test, GateTest::interval);
  current.cells.at({"serial", "weight.sign"}).outcomes.assign(100, OutcomeClass::sdc);
  EXPECT_EQ(gate(baseline, current, only_sdc()).verdict(), GateVerdict::worse);
}

TEST(Gate, MakesALineForEachValueAndOnlyWhereAsked) {
  const Sample sample = sample_with({{1000, 10, 1}, {9000, 10, 2}}, 1, {"a", "b"});
  GateRules rules = only_sdc();
  rules.families.front().by = {"field"};
  EXPECT_EQ(gate(sample, sample, rules).lines.size(), 4U);
  rules.families.front().where = {{"arm", {"b"}}, {"field", {"sign"}}};
  const GateReport report = gate(sample, sample, rules);
  ASSERT_EQ(report.lines.size(), 1U);
  EXPECT_EQ(report.lines[0].name(), "SDC, arm b, field sign");
  EXPECT_EQ(report.lines[0].difference.shown().first_trials(), 10U);
  rules.families.front().where = {{"role", {"bias"}}};
  EXPECT_THAT(refusal(sample, sample, rules), HasSubstr("no arm and stratum of this campaign has role bias"));
}

TEST(Gate, RefusesCampaignsWhoseRatesMeanOtherThings) {
  const Sample baseline = sample_with({{1000, 10, 1}, {9000, 10, 2}});
  EXPECT_THAT(refusal(baseline, sample_with({{1000, 10, 1}})), HasSubstr("strata.fields"));
  Sample current = baseline;
  current.spec.level = 0.05;
  EXPECT_THAT(refusal(baseline, current), HasSubstr("analysis.level: 0.01 and 0.05"));
  current = baseline;
  current.spec.resume_epochs = 7;
  EXPECT_THAT(refusal(baseline, current), HasSubstr("resume.epochs"));
  EXPECT_THAT(refusal(baseline, current), HasSubstr("--update"));
  current = baseline;
  current.cells.at({"serial", "weight.sign"}).outcomes.pop_back();
  EXPECT_THAT(refusal(baseline, current), HasSubstr("has 19 of 20 trials"));
  EXPECT_THAT(refusal(baseline, sample_with({{1000, 10, 1}, {9000, 10, 2}}, 1, {"other"})),
              HasSubstr("lacks arm 'serial'"));
}

TEST(Gate, NamesWhatDiffersAndArmsThatItDoesNotTest) {
  const Sample baseline = sample_with({{1000, 10, 1}, {9000, 10, 2}});
  Sample current = sample_with({{1000, 10, 1}, {9000, 10, 2}}, 2, {"serial", "data-2"});
  current.spec.seed = 43;
  const std::string told = text(gate(baseline, current, {}));
  EXPECT_THAT(told, HasSubstr("differs from the baseline: seed: 42 and 43"));
  EXPECT_THAT(told, HasSubstr("arm data-2 is not in the baseline, so it is not tested"));
  EXPECT_THAT(told, HasSubstr("the comparison is unpaired"));
}

TEST(Gate, RaisesFewFalseAlarms) {
  int alarms = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Sample baseline = sample_with({{1000, 40, 0}, {8000, 40, 0}}, 1, {"a", "b"});
    Sample current = sample_with({{1000, 40, 0}, {8000, 40, 0}}, 2, {"a", "b"});
    testing::draw_outcomes(baseline, derive_key(seed, "first"), 0.2);
    testing::draw_outcomes(current, derive_key(seed, "second"), 0.2);
    alarms += gate(baseline, current, {}).verdict() == GateVerdict::worse ? 1 : 0;
  }
  EXPECT_LE(alarms, 20);
  EXPECT_GE(alarms, 1);
}

TEST(GateRules, AreReadFromJson) {
  const GateRules rules = rules_from(
      R"({"alpha": 0.01, "families": [{"outcomes": ["crash"], "by": ["arm", "role"], "where": {"field": ["sign"]},
          "tolerance_points": 0.5, "must_see_points": 4}]})");
  EXPECT_DOUBLE_EQ(rules.alpha, 0.01);
  ASSERT_EQ(rules.families.size(), 1U);
  EXPECT_EQ(rules.families[0].outcomes, std::vector{OutcomeClass::crash});
  EXPECT_EQ(rules.families[0].by, std::vector<std::string>{"role"});
  EXPECT_EQ(rules.families[0].where.at("field"), std::vector<std::string>{"sign"});
  EXPECT_DOUBLE_EQ(rules.families[0].tolerance, 0.005);
  EXPECT_DOUBLE_EQ(rules.families[0].must_see.value(), 0.04);
  EXPECT_EQ(rules_from("{}").families.size(), 1U);
}

TEST(GateRules, NameTheKeyThatIsWrong) {
  EXPECT_THAT(rules_refusal(R"({"alpah": 0.05})"), HasSubstr("alpah"));
  EXPECT_THAT(rules_refusal(R"({"alpha": 2})"), HasSubstr("gate.json:1: alpha"));
  EXPECT_THAT(rules_refusal(R"({"families": [{"outcomes": ["masked"]}]})"),
              HasSubstr("families[0].outcomes[0]"));
  EXPECT_THAT(rules_refusal(R"({"families": [{"by": ["arm"]}]})"), HasSubstr("outcomes"));
  EXPECT_THAT(rules_refusal(R"({"families": [{"outcomes": ["SDC"], "where": {"layer": ["fc"]}}]})"),
              HasSubstr("layer"));
}

GateReport named(const std::string& campaign, const std::string& arm) {
  static Sample baseline, current;
  baseline = sample_with({{1000, 50, 0}}, 1, {arm});
  current = sample_with({{1000, 50, 30}}, 1, {arm});
  current.spec.name = campaign;
  GateReport report = gate(baseline, current, {});
  report.flips.front().fault = "model/a|b[1] bit 3 <x>";
  return report;
}

TEST(GateReport, EscapesNamesInXml) {
  const std::string xml = junit(named("a<b>&\"c\"\x01", "arm<1>"), "2026-01-31T12:00:00.000Z");
  EXPECT_THAT(xml, HasSubstr("<testsuite name=\"a&lt;b&gt;&amp;&quot;c&quot;?\" tests=\"2\" failures=\"1\""));
  EXPECT_THAT(xml, HasSubstr("timestamp=\"2026-01-31T12:00:00\""));
  EXPECT_THAT(xml, HasSubstr("name=\"SDC, arm arm&lt;1&gt;\""));
  EXPECT_THAT(xml, HasSubstr("<failure type=\"worse\""));
  EXPECT_THAT(xml, Not(HasSubstr("arm<1>")));
}

TEST(GateReport, EscapesNamesInMarkdown) {
  const std::string page = markdown(named("a|b", "x_y*"), "results/ci");
  EXPECT_THAT(page, HasSubstr("### Resilience gate: a\\|b"));
  EXPECT_THAT(page, HasSubstr("| SDC, arm x\\_y\\* |"));
  EXPECT_THAT(page, HasSubstr("model/a\\|b\\[1\\] bit 3 &lt;x>"));
  EXPECT_THAT(page, HasSubstr("bitrift campaign replay results/ci x_y*/weight.sign/0"));
  EXPECT_THAT(page, HasSubstr("- and 10 more"));
}

TEST(GateReport, IsJsonWithTheAnswer) {
  const record::Json value = to_json(named("study", "serial"));
  EXPECT_EQ(value["schema"], "bitrift/gate/1");
  EXPECT_EQ(value["verdict"], "worse");
  EXPECT_EQ(value["lines"][0]["test"], "mcnemar");
  EXPECT_EQ(value["lines"][0]["second_only"], 30);
  EXPECT_EQ(value["flips"].size(), 30U);
  EXPECT_EQ(value["flips"][0]["before"], "masked");
}

}  // namespace
}  // namespace bitrift::analyze::gate_test
