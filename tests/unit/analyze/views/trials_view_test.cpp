#include "analyze/views/trials_view.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "unit/analyze/study.h"

namespace bitrift::analyze::trials_view_test {
namespace {

using record::Metric;
using record::OutcomeClass;
using record::Reason;
using testing::add_trials;
using testing::clean_arm;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::spec_of;
using Rows = std::vector<record::TrialRecord>;

Rows rows() {
  Rows rows = clean_arm("serial");
  add_trials(rows, "serial", "weight.sign", 1000, 2, 3, 1);
  add_trials(rows, "serial", "bias.sign", 100, 1, 0, 0);
  return rows;
}

std::vector<std::uint64_t> draws(const std::vector<TrialLine>& lines) {
  std::vector<std::uint64_t> draws;
  for (const TrialLine& line : lines) draws.push_back(line.row->id.draw);
  return draws;
}

class TrialsView : public ::testing::Test {
 protected:
  void SetUp() override {
    // weight.sign: 0 and 1 masked, 2 to 4 SDC, 5 a crash
    auto metric_of = [&](std::uint64_t draw) -> record::Evaluation& {
      for (record::TrialRecord& row : rows_) {
        if (row.id.stratum == "weight.sign" && row.id.draw == draw) return row.result->replicas[0][0];
      }
      throw std::logic_error("no such row");
    };
    metric_of(2).test_loss = 3;
    metric_of(3).test_loss = 7;
    metric_of(4).test_loss = 9;
  }
  [[nodiscard]] std::vector<TrialLine> lines(const TrialFilter& filter = {}) const {
    return trials_view(rows_, trust_of(rows_, judging_of(spec_of({"serial"}))), filter);
  }
  Rows rows_ = rows();
};

TEST_F(TrialsView, ShowsTrialsOnlyInFileOrderWithTheirGoldenRun) {
  const auto all = lines();
  ASSERT_EQ(all.size(), 7U);
  EXPECT_EQ(all[2].outcome.reason, Reason::low_test_accuracy);
  EXPECT_EQ(all[2].at->test_loss, 3);
  EXPECT_EQ(all[2].golden->test_loss, 0.2);
  EXPECT_EQ(all[5].outcome.outcome_class(), OutcomeClass::crash);
}

TEST_F(TrialsView, FiltersByOutcomeReasonArmAndStratum) {
  EXPECT_THAT(draws(lines({.outcomes = {OutcomeClass::sdc}})), ElementsAre(2, 3, 4));
  EXPECT_THAT(draws(lines({.reasons = {Reason::nonfinite}})), ElementsAre(5));
  EXPECT_THAT(draws(lines({.strata = {"bias.sign"}})), ElementsAre(0));
  EXPECT_EQ(lines({.kinds = {record::TrialKind::canary}}).size(), 3U);
  EXPECT_THAT(
      [&] { static_cast<void>(lines({.arms = {"data-2"}})); },
      ::testing::ThrowsMessage<Error>(HasSubstr("no arm 'data-2' in this campaign; there are serial")));
}

TEST_F(TrialsView, ShowsTheTrialsThatAreNamed) {
  EXPECT_THAT(draws(lines({.ids = {"serial/weight.sign/4", "serial/bias.sign/0"}})), ElementsAre(4, 0));
  for (const char* id : {"serial/weight.sign/77", "serial/canary:negate/0", "weight.sign"}) {
    EXPECT_THAT(
        [&] {
          static_cast<void>(lines({.ids = {"serial/weight.sign/4", id}}));
        },
        ::testing::ThrowsMessage<Error>(HasSubstr(std::string("no trial ") + id)));
  }
}

TEST_F(TrialsView, SortsTheWorstFirst) {
  auto sdc = lines({.outcomes = {OutcomeClass::sdc}});
  sort_worst_first(sdc, Metric::test_loss);
  EXPECT_THAT(draws(sdc), ElementsAre(4, 3, 2));
  auto all = lines({.strata = {"weight.sign"}});
  sort_worst_first(all, Metric::test_accuracy);
  EXPECT_THAT(draws(all), ElementsAre(2, 3, 4, 5, 0, 1));
  sort_worst_first(all);
  EXPECT_EQ(all.front().outcome.outcome_class(), OutcomeClass::sdc);
  EXPECT_FALSE(all.back().outcome.p_value.has_value());
}

TEST_F(TrialsView, NamesTheFaultAndEveryMetric) {
  record::TrialRecord& row = rows_[rows_.size() - 2];
  row.faults.bits().append({"model/w", "weight", 12, "float32", {0, 30}, "mixed", 0x3dcccccd, 0x7dcccccc});
  row.faults.bits().append({"model/w", "weight", 13, "float32", {31}, "sign", 0, 0x80000000});
  EXPECT_EQ(record::described(row.faults, 1),
            "model/w[12] bit 0,30 0x3dcccccd -> 0x7dcccccc (0.1 -> 3.403e+37); and 1 more");
  EXPECT_EQ(record::described(rows_.back().faults, 1), "none");
  const auto json = to_json(lines({.outcomes = {OutcomeClass::crash}}).at(0));
  EXPECT_EQ(json["id"], "serial/weight.sign/5");
  EXPECT_EQ(json["outcome"], "crash");
  EXPECT_EQ(json["faults"], 2);
  EXPECT_EQ(json["tensor"], "model/w");
  EXPECT_EQ(json["old"], "0x3dcccccd");
  EXPECT_EQ(json["test_accuracy"], 0.1);
  EXPECT_EQ(json["golden"]["test_accuracy"], 0.95);
}

}  // namespace
}  // namespace bitrift::analyze::trials_view_test
