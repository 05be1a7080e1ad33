#include "analyze/verdict/assurance.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "unit/analyze/rows.h"

namespace bitrift::analyze::assurance_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// An arm whose clean accuracies lie `step` apart.
Assurance spread_by(double step, const FalseSdc& measured = {}) {
  auto rows = testing::clean_arm("serial");
  double fall = 0;
  for (record::TrialRecord& row : rows) {
    if (row.kind == record::TrialKind::envelope)
      row.result->replicas[0][0].test_accuracy = std::max(0.0, 0.95 - (fall += step));
  }
  Judging judging;
  judging.metrics = {record::Metric::test_accuracy};
  return assurance_of(controls_of(rows, judging).at("serial"), measured, 0.95);
}

std::string text_of(const Assurance& arm) { return assurance_text({{"serial", arm}}, 0.95); }

TEST(Assurance, ACampaignThatIsBlindToFivePointsSaysSoAndHowToSharpenIt) {
  EXPECT_THAT(text_of(spread_by(0.001)), Not(HasSubstr("To sharpen it")));
  const std::string text = text_of(spread_by(0.01));
  EXPECT_THAT(text, HasSubstr("serial cannot see a fall of 5 points of test accuracy."));
  EXPECT_THAT(text, HasSubstr("controls.envelope, now 20"));
  EXPECT_THAT(text_of(spread_by(0.06)), HasSubstr("5 points of test accuracy, or any other"));
}

TEST(Assurance, TheMeasuredRateStandsBesideTheStatedLevel) {
  const Assurance arm = spread_by(0.001, {{60, 1}, {30, 0}, 0.02});
  EXPECT_DOUBLE_EQ(arm.level, 1.0 / 21);
  EXPECT_DOUBLE_EQ(arm.at_most, upper_bound({60, 1}, 0.95));
  EXPECT_THAT(text_of(arm), HasSubstr("clean runs called SDC: 1 of 60, at most 7.7 %"));
  EXPECT_THAT(
      text_of(arm),
      HasSubstr("harmless faults called SDC: 0 of 30; they end within 0.02 units of their golden run\n"));
  const record::Json json = to_json(arm);
  EXPECT_EQ(json.at("false_sdc").at("jitter_distance"), 0.02);
  EXPECT_EQ(json.at("false_sdc").at("held_out").at("called"), 1);
  EXPECT_DOUBLE_EQ(json.at("resolution").at("test_accuracy").get<double>(), 0.021);
  EXPECT_EQ(to_json(spread_by(0.06)).at("resolution").at("test_accuracy"), nullptr);
}

}  // namespace
}  // namespace bitrift::analyze::assurance_test
