// What a report shows of canaries, also of those that have not run.
#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "analyze/verdict/canaries.h"
#include "core/error.h"
#include "design/kind/run/wire_strata.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze::canary_checks_test {
namespace {

using record::TrialKind;
using record::TrialRecord;
using testing::clean_arm;
using ::testing::ElementsAre;
using testing::evaluation;
using testing::finished;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Rows = std::vector<TrialRecord>;
using Line = std::tuple<std::string, std::string, std::string, std::string>;

Judging judging() {
  Judging by;
  by.level = 0.05;
  return by;
}

// (stratum, state, outcome, landing) of each.
std::vector<Line> lines(const std::vector<CanaryCheck>& checks) {
  std::vector<Line> lines;
  for (const CanaryCheck& one : checks)
    lines.emplace_back(one.stratum, name_of(one.state), one.found, one.landing);
  return lines;
}

std::vector<CanaryCheck> checks_of(const Rows& rows, const std::vector<std::string>& arms = {"a"},
                                   const Judging& by = judging()) {
  return canary_checks(rows, arms, controls_of(rows, by), by);
}

TrialRecord reader(bool landed) {
  TrialRecord row = finished(TrialKind::canary, "a", "canary:reads-bias", 0,
                             {{evaluation(1, 0.1, 0.97, 0.2, 0.95)}}, "other");
  row.landed = landed;
  return row;
}

TEST(CanaryChecks, SayWhatEachIsAndHowItEnded) {
  Rows rows = clean_arm("a");
  rows.push_back(reader(true));
  const auto checks = checks_of(rows);
  EXPECT_THAT(lines(checks), ElementsAre(Line{"canary:nan", "holds", "crash (nonfinite)", "yes"},
                                         Line{"canary:negate", "holds", "SDC (low_test_accuracy)", "yes"},
                                         Line{"canary:reads-bias", "holds", "masked (within_noise)", "yes"},
                                         Line{"canary:none", "holds", "masked (bitwise)", "yes"}));
  EXPECT_EQ(checks[0].altered, "first weight tensor set to NaN");
  EXPECT_EQ(checks[0].required, "crash");
  EXPECT_EQ(checks[2].altered, "NaN in all targeted floating-point tensors of role bias");
  EXPECT_EQ(checks[3].required, "masked (bitwise)");
}

// A share of right answers stays finite where all weights are NaN.
TEST(CanaryChecks, NanNeedNotCrashWhereNoLossIsReported) {
  Rows rows = clean_arm("a");
  TrialRecord nan =
      finished(TrialKind::canary, "a", "canary:nan", 0, {{evaluation(1, 9, 0.1, 9, 0.1)}}, "nan");
  std::swap(*std::ranges::find(rows, "canary:nan", [](const TrialRecord& row) { return row.id.stratum; }),
            nan);
  EXPECT_EQ(checks_of(rows).front().problem, "must be crash, is SDC (low_test_accuracy)");
  const auto only_own = [](record::Evaluation& one) {
    one.higher_is_better = {{"acc1", *one.test_accuracy}};
    one.test_loss = one.test_capped_loss = one.test_accuracy = std::nullopt;
  };
  const auto on_all = [&](TrialRecord& row) {
    for (auto& replica : row.result->replicas) std::ranges::for_each(replica, only_own);
  };
  std::ranges::for_each(rows, on_all);
  const CanaryCheck check = checks_of(rows).front();
  EXPECT_EQ(check.problem, "");
  EXPECT_EQ(check.required, "crash or SDC");
  EXPECT_EQ(check.found, "SDC (worse_metric)");
  TrialRecord& unread = rows[23];
  ASSERT_EQ(unread.id.stratum, "canary:nan");
  unread.result = rows.front().result;
  EXPECT_EQ(checks_of(rows).front().problem, "must be crash or SDC, is masked (bitwise)");
}

TEST(CanaryChecks, ThatHaveNotRunAreNoOutcome) {
  const auto checks = checks_of({}, {"a"});
  EXPECT_THAT(lines(checks),
              ElementsAre(Line{"canary:nan", "not run", "", ""}, Line{"canary:negate", "not run", "", ""},
                          Line{"canary:none", "not run", "", ""}));
  EXPECT_EQ(checks[0].line(), "arm 'a': canary:nan: missing");
  EXPECT_THAT(canary_problems({}, {}, judging()), IsEmpty());  // no arm has begun
}

TEST(CanaryChecks, WithoutControlsNothingIsJudged) {
  Rows rows = clean_arm("a");
  rows.erase(rows.begin() + 10, rows.begin() + 20);  // envelope runs
  const auto checks = canary_checks(rows, {"a"}, {}, judging());
  EXPECT_THAT(lines(checks), ElementsAre(Line{"canary:nan", "unjudged", "", "yes"},
                                         Line{"canary:negate", "unjudged", "", "yes"},
                                         Line{"canary:none", "unjudged", "", "yes"}));
  EXPECT_EQ(checks[0].problem, "");
}

TEST(CanaryChecks, OfRolesFollowFromThePlan) {
  const Rows rows = clean_arm("a");
  const Judging by = judging();
  const std::vector<std::string> planned = {"canary:nan", "canary:negate", "canary:reads-bias",
                                            "canary:none"};
  const auto checks = canary_checks(rows, {"a", "b"}, controls_of(rows, by), by, {{"a", planned}});
  ASSERT_EQ(checks.size(), 4U + 3U);
  EXPECT_EQ(checks[2].state, CanaryState::not_run);
  EXPECT_EQ(checks[2].stratum, "canary:reads-bias");
  EXPECT_EQ(checks[4].arm, "b");
}

TEST(CanaryChecks, SayWhetherTheFaultReachedTheRun) {
  Judging by = judging();
  by.strata = design::WireStrata{};
  Rows rows = clean_arm("a");
  for (const bool landed : {false, true}) {
    rows.push_back(finished(TrialKind::canary, "a", landed ? "canary:link-lands" : "canary:link-unreached", 0,
                            {{evaluation(1, 0.1, 0.97, 0.2, 0.95)}}, landed ? "other" : "golden"));
    rows.back().landed = landed;
  }
  const auto landing = [&](std::size_t from_end) {
    const auto checks = checks_of(rows, {"a"}, by);
    const CanaryCheck& one = checks[checks.size() - from_end];
    return std::string(name_of(one.state)) + ": " + one.landing;
  };
  EXPECT_EQ(landing(2), "holds: no, as required");
  EXPECT_EQ(landing(1), "holds: yes");
  for (TrialRecord& row : rows) row.landed = !row.landed;
  EXPECT_EQ(landing(2), "misbehaves: yes, but must not");
  EXPECT_EQ(landing(1), "misbehaves: no, but must");
}

TEST(CanaryChecks, AFaultOfTheRunThatAGuardUndidWasSeen) {
  Judging by = judging();
  by.strata = design::WireStrata{};
  Rows rows = clean_arm("a");
  rows.push_back(finished(TrialKind::canary, "a", "canary:link-lands", 0,
                          {{evaluation(1, 0.1, 0.97, 0.2, 0.95)}}, "golden"));
  TrialRecord& struck = rows.back();
  struck.landed = true;
  struck.faults = std::vector{record::LinkFault{}};
  EXPECT_EQ(checks_of(rows, {"a"}, by).back().state, CanaryState::misbehaves);
  struck.result->guard_action_count = 1;
  EXPECT_EQ(checks_of(rows, {"a"}, by).back().state, CanaryState::holds);
  struck.landed = false;
  EXPECT_EQ(checks_of(rows, {"a"}, by).back().state, CanaryState::misbehaves);
}

// A guard cannot undo what the file holds: a role that is not read stays unread, whatever alarm came.
TEST(CanaryChecks, AnActionOfAGuardDoesNotExcuseARoleThatIsNotRead) {
  Rows rows = clean_arm("a");
  rows.push_back(reader(true));
  rows.back().result = rows.front().result;
  rows.back().result->guard_action_count = 1;
  EXPECT_EQ(checks_of(rows)[2].state, CanaryState::misbehaves);
}

TEST(CanaryChecks, AFileThatIsRefusedWasRead) {
  Rows rows = clean_arm("a");
  rows.push_back(reader(false));
  EXPECT_EQ(checks_of(rows)[2].landing, "no, but must");
  rows.back().result->status = record::RunStatus::rejected;
  EXPECT_EQ(checks_of(rows)[2].landing, "not known: the trainer refused the file");
  EXPECT_EQ(checks_of(rows)[2].state, CanaryState::holds);
}

TEST(CanaryChecks, RefuseACanaryThatTheyDoNotKnow) {
  Rows rows = clean_arm("a");
  rows.push_back(reader(true));
  rows.back().id.stratum = "canary:of-later";
  try {
    static_cast<void>(checks_of(rows));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    EXPECT_THAT(error.what(), HasSubstr("this version knows no canary 'canary:of-later'"));
  }
}

}  // namespace
}  // namespace bitrift::analyze::canary_checks_test
