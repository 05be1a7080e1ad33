#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "analyze/verdict/canaries.h"
#include "core/error.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze::controls_test {
namespace {

using record::TrialKind;
using record::TrialRecord;
using ::testing::AllOf;
using testing::clean_arm;
using ::testing::ElementsAre;
using testing::evaluation;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Rows = std::vector<TrialRecord>;

TrialRecord& find(Rows& rows, const std::string& arm, const std::string& stratum, std::uint64_t draw = 0) {
  for (TrialRecord& row : rows) {
    if (row.id == record::TrialId{arm, stratum, draw}) return row;
  }
  throw std::logic_error("no such row");
}

void erase(Rows& rows, const std::string& arm, const std::string& stratum, std::uint64_t draw = 0) {
  std::erase_if(rows, [&](const TrialRecord& row) { return row.id == record::TrialId{arm, stratum, draw}; });
}

Rows two_arms() {
  Rows rows = clean_arm("serial");
  const Rows other = clean_arm("data2", 2);
  rows.insert(rows.end(), other.begin(), other.end());
  return rows;
}

// Changes the rows of two good arms and returns how controls_of refuses them.
std::pair<ErrorCode, std::string> refusal(const std::function<void(Rows&)>& change) {
  Rows rows = two_arms();
  change(rows);
  try {
    (void)controls_of(rows, Judging{});
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::internal, "nothing was thrown"};
}

TEST(Controls, OfTwoArmsAreFound) {
  const auto controls = controls_of(two_arms(), Judging{});
  ASSERT_EQ(controls.size(), 2U);
  const ArmControls& data = controls.at("data2");
  ASSERT_EQ(data.golden.size(), 1U);
  EXPECT_EQ(data.golden[0].digest, "golden");
  EXPECT_THAT(data.golden[0].replica_digests, ElementsAre("golden", "golden"));
  EXPECT_EQ(data.zero_step.digest, "base");
  EXPECT_EQ(data.horizon, 1U);
  EXPECT_EQ(data.calibration.value().runs(), 20U);
  EXPECT_EQ(data.calibration->targets(), testing::kTargets);
  EXPECT_DOUBLE_EQ(data.calibration->level(), 1.0 / 21);
}

TEST(Controls, EveryDataOrderHasItsOwnGoldenRun) {
  Rows rows = clean_arm("serial");
  for (std::uint64_t draw = 0; draw < 2; ++draw) {
    rows.push_back(find(rows, "serial", "control", draw));
    rows.back().id.stratum = "control:order-1";
    rows.back().order = 1;
    rows.back().result->final_digest = rows.back().result->replica_digests[0] = "other order";
  }
  const ArmControls arm = controls_of(rows, Judging{}).at("serial");
  ASSERT_EQ(arm.golden.size(), 2U);
  EXPECT_EQ(arm.golden[0].digest, "golden");
  EXPECT_EQ(arm.golden[1].digest, "other order");
  erase(rows, "serial", "control:order-1", 1);
  try {
    (void)controls_of(rows, Judging{});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("1 no-flip runs of data order 1"));
  }
}

TEST(Controls, ACappedLossThatNoRunHasIsLeftOutBesideOthers) {
  Rows rows = clean_arm("serial");
  for (TrialRecord& row : rows) {
    if (!row.result) continue;
    for (auto& replica : row.result->replicas) {
      for (auto& e : replica) e.test_capped_loss.reset();
    }
  }
  const auto controls = controls_of(rows, Judging{});
  EXPECT_THAT(controls.at("serial").calibration.value().metrics(),
              ElementsAre(record::Metric::test_accuracy));
  Judging capped;
  capped.metrics = {record::Metric::test_capped_loss};
  EXPECT_THROW((void)controls_of(rows, capped), Error);
}

TEST(Controls, TheTestLossIsJudgedWhereNoRunHasTheUsualMetrics) {
  Rows rows = clean_arm("serial");
  for (TrialRecord& row : rows) {
    if (!row.result) continue;
    for (auto& replica : row.result->replicas) {
      for (auto& e : replica) {
        e.test_capped_loss.reset();
        e.test_accuracy.reset();
      }
    }
  }
  const auto metrics_of = [&](const std::vector<record::Metric>& asked) {
    Judging judging;
    judging.metrics = asked;
    return controls_of(rows, judging).at("serial").calibration.value().metrics();
  };
  EXPECT_THAT(metrics_of(Judging{}.metrics), ElementsAre(record::Metric::test_loss));
  EXPECT_THAT(metrics_of({record::Metric::test_accuracy, record::Metric::train_loss}),
              ElementsAre(record::Metric::train_loss));
  EXPECT_THROW((void)metrics_of({record::Metric::test_accuracy}), Error);
}

TEST(Controls, AHorizonMustBeAnEvaluation) {
  Judging judging;
  for (const std::size_t horizon : {0U, 2U}) {
    judging.horizon = horizon;
    try {
      (void)controls_of(two_arms(), judging);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      EXPECT_THAT(error.what(), HasSubstr("evaluations 1 to 1"));
    }
  }
}

TEST(Controls, AnyDifferenceBetweenNoFlipRunsIsRefusedByName) {
  const std::vector<std::pair<std::string, std::function<void(record::RunResult&)>>> changes = {
      {"final_digest", [](auto& r) { r.final_digest = "g0lden"; }},
      {"replica_digests", [](auto& r) { r.replica_digests[1] = "g0lden"; }},
      {"last_loss", [](auto& r) { r.last_loss = "0x1p-3"; }},
      {"steps (20 and 19)", [](auto& r) { r.steps = 19; }},
      {"train_loss of evaluation 1 of replica 1",
       [](auto& r) { r.replicas[1][0].train_loss = std::nextafter(0.1, 1); }},
      {"train_accuracy of evaluation 1 of replica 0",
       [](auto& r) { r.replicas[0][0].train_accuracy.reset(); }},
      {"test_loss of evaluation 1 of replica 0",
       [](auto& r) { r.replicas[0][0].test_loss = std::nextafter(0.2, 0); }},
      {"test_accuracy of evaluation 1 of replica 1", [](auto& r) { r.replicas[1][0].test_accuracy = 0.96; }},
      {"epoch of evaluation 1", [](auto& r) { r.replicas[0][0].epoch = 7; }},
      {"number of evaluations of replica 1", [](auto& r) { r.replicas[1].push_back(r.replicas[1][0]); }},
      {"number of replicas", [](auto& r) { r.replicas.pop_back(); }},
  };
  for (const auto& [name, change] : changes) {
    const auto [code, text] = refusal([&](Rows& rows) { change(*find(rows, "data2", "control", 1).result); });
    EXPECT_EQ(code, ErrorCode::conflict) << name;
    EXPECT_THAT(text, AllOf(HasSubstr("arm 'data2'"), HasSubstr(name)));
  }
}

TEST(Controls, NegativeZeroIsNotZero) {
  const auto [code, text] = refusal([](Rows& rows) {
    find(rows, "serial", "control", 0).result->replicas[0][0].test_loss = 0.0;
    find(rows, "serial", "control", 1).result->replicas[0][0].test_loss = -0.0;
  });
  EXPECT_EQ(code, ErrorCode::conflict);
  EXPECT_THAT(text, HasSubstr("test_loss"));
}

TEST(Controls, AThirdNoFlipRunMustAgreeToo) {
  const auto [code, text] = refusal([](Rows& rows) {
    rows.push_back(find(rows, "serial", "control", 1));
    rows.back().id.draw = 2;
    rows.back().result->final_digest = "later";
  });
  EXPECT_EQ(code, ErrorCode::conflict);
  EXPECT_THAT(text, HasSubstr("serial/control/2"));
}

TEST(Controls, MissingOnesAreNamed) {
  auto missing = refusal([](Rows& rows) { erase(rows, "data2", "control", 1); });
  EXPECT_EQ(missing.first, ErrorCode::conflict);
  EXPECT_THAT(missing.second, AllOf(HasSubstr("'data2'"), HasSubstr("1 no-flip runs")));
  missing = refusal([](Rows& rows) { erase(rows, "data2", "control:zero"); });
  EXPECT_EQ(missing.first, ErrorCode::conflict);
  EXPECT_THAT(missing.second, AllOf(HasSubstr("'data2'"), HasSubstr("zero steps")));
  missing = refusal([](Rows& rows) { erase(rows, "data2", "envelope", 19); });
  EXPECT_EQ(missing.first, ErrorCode::bad_input);
  EXPECT_THAT(missing.second, AllOf(HasSubstr("'data2'"), HasSubstr("19 envelope runs")));
}

TEST(Controls, AnArmWithTrialsOnlyIsRefused) {
  const auto [code, text] = refusal(
      [](Rows& rows) { rows.push_back(testing::row(TrialKind::trial, "pipeline", "weight.sign", 0)); });
  EXPECT_EQ(code, ErrorCode::conflict);
  EXPECT_THAT(text, HasSubstr("'pipeline'"));
}

TEST(Controls, ACleanRunMayNotFail) {
  const std::vector<std::pair<std::string, std::function<void(TrialRecord&)>>> changes = {
      {"nonfinite", [](auto& row) { row.result->status = record::RunStatus::nonfinite; }},
      {"rejected", [](auto& row) { row.result->status = record::RunStatus::rejected; }},
      {"not finite",
       [](auto& row) { row.result->replicas[0][0].test_loss = std::numeric_limits<double>::infinity(); }},
      {"signal: Killed",
       [](auto& row) {
         row.result.reset();
         row.failure = record::Failure{record::FailureReason::signal, "Killed", 9};
       }},
  };
  for (const auto& [text, change] : changes) {
    for (const std::string stratum : {"envelope", "control", "control:zero"}) {
      const auto refused = refusal([&](Rows& rows) { change(find(rows, "serial", stratum, 0)); });
      EXPECT_EQ(refused.first, ErrorCode::conflict) << stratum;
      EXPECT_THAT(refused.second, AllOf(HasSubstr("arm 'serial'"), HasSubstr(text))) << stratum;
    }
  }
}

TEST(Controls, AnEnvelopeRunOfAnotherLengthIsRefused) {
  const auto [code, text] = refusal([](Rows& rows) {
    auto& run = find(rows, "serial", "envelope", 4).result->replicas[0];
    run.push_back(run.front());
  });
  EXPECT_EQ(code, ErrorCode::conflict);
  EXPECT_THAT(text, HasSubstr("serial/envelope/4"));
}

TEST(Controls, AZeroStepRunThatTookStepsIsRefused) {
  const auto [code, text] =
      refusal([](Rows& rows) { find(rows, "serial", "control:zero").result->replicas[0][0].step = 3; });
  EXPECT_EQ(code, ErrorCode::conflict);
  EXPECT_THAT(text, HasSubstr("at step 0"));
}

std::vector<std::string> problems_after(const std::function<void(Rows&)>& change) {
  Rows rows = two_arms();
  change(rows);
  return canary_problems(rows, controls_of(rows, Judging{}), Judging{});
}

TEST(Canaries, ThatBehaveGiveNoProblem) {
  EXPECT_THAT(problems_after([](Rows&) {}), IsEmpty());
}

// A canary in which all tensors of role momentum are NaN, as a campaign's row.
TrialRecord reader_canary(const std::string& digest) {
  Rows rows = two_arms();
  TrialRecord row = find(rows, "serial", "control");
  row.kind = TrialKind::canary;
  row.id.stratum = "canary:reads-momentum";
  row.result->final_digest = digest;
  row.result->replica_digests = {digest};
  return row;
}

TEST(Canaries, OfARoleThatIsNotReadNameTheRole) {
  const auto problems = problems_after([](Rows& rows) { rows.push_back(reader_canary("golden")); });
  EXPECT_THAT(problems, ElementsAre(AllOf(HasSubstr("arm 'serial': canary:reads-momentum"),
                                          HasSubstr("does not read role momentum"))));
  EXPECT_THAT(problems_after([](Rows& rows) { rows.push_back(reader_canary("other")); }), IsEmpty());
}

TEST(Canaries, OfARoleCountAsReadIfTheFileIsRefusedAndNotIfTheyDidNotLand) {
  const auto with = [](record::RunStatus status) {
    return problems_after([status](Rows& rows) {
      rows.push_back(reader_canary("other"));
      rows.back().landed = false;
      rows.back().result->status = status;
    });
  };
  EXPECT_THAT(with(record::RunStatus::rejected), IsEmpty());
  EXPECT_THAT(with(record::RunStatus::done), ElementsAre(HasSubstr("was not changed when loaded")));
}

TEST(Canaries, OfAnyCrashReasonSatisfyTheNanCanary) {
  EXPECT_THAT(problems_after([](Rows& rows) {
                TrialRecord& canary = find(rows, "serial", "canary:nan");
                canary.result.reset();
                canary.failure = record::Failure{record::FailureReason::exception, "a guard", 0};
              }),
              IsEmpty());
}

TEST(Canaries, MissingOnesAreProblemsPerArm) {
  for (const std::string stratum : {"canary:nan", "canary:negate", "canary:none"}) {
    EXPECT_THAT(problems_after([&](Rows& rows) { erase(rows, "data2", stratum); }),
                ElementsAre(AllOf(HasSubstr("'data2'"), HasSubstr(stratum), HasSubstr("missing"))));
  }
}

TEST(Canaries, ThatDidNotLandAreProblems) {
  for (const std::string stratum : {"canary:nan", "canary:negate", "canary:none"}) {
    EXPECT_THAT(problems_after([&](Rows& rows) { find(rows, "serial", stratum).landed = false; }),
                ElementsAre(AllOf(HasSubstr("'serial'"), HasSubstr(stratum))));
  }
}

// What an injector that flips nothing gives: every canary runs like the golden run, and would be landed by
// its own word.
TEST(Canaries, CatchAHarnessThatChangesNothing) {
  EXPECT_THAT(problems_after([](Rows& rows) {
                find(rows, "serial", "canary:nan").result = find(rows, "serial", "control").result;
                find(rows, "serial", "canary:negate").result = find(rows, "serial", "control:zero").result;
              }),
              ElementsAre(HasSubstr("canary:nan: must be crash, is masked (bitwise)"),
                          HasSubstr("canary:negate: must be SDC, is masked (bitwise)")));
}

// Such as those that the program loads and never uses.
TEST(Canaries, NameTheFewTensorsThatTheyAltered) {
  const auto problem_with = [](const std::vector<std::string>& names) {
    return problems_after([&](Rows& rows) {
      find(rows, "serial", "canary:nan").result = find(rows, "serial", "control").result;
      find(rows, "serial", "canary:nan").result->changed_tensors = names;
    });
  };
  EXPECT_THAT(problem_with({"a"}), ElementsAre(HasSubstr("is masked (bitwise) after a was altered")));
  EXPECT_THAT(problem_with({"a", "b"}), ElementsAre(HasSubstr("(bitwise) after a and b were altered")));
  EXPECT_THAT(problem_with({"a", "b", "c"}), ElementsAre(::testing::EndsWith("(bitwise)")));
}

TEST(Canaries, ANegationThatStaysWithinItsLimitsIsAProblem) {
  EXPECT_THAT(problems_after([](Rows& rows) {
                find(rows, "serial", "canary:negate").result->replicas[0][0] = evaluation(0, 0, 0, 0.3, 0.9);
              }),
              ElementsAre(HasSubstr("is masked (within_noise)")));
}

TEST(Canaries, MaskedIsNotEnoughForTheOneWithoutAFlip) {
  EXPECT_THAT(
      problems_after([](Rows& rows) { find(rows, "data2", "canary:none").result->replica_digests[1] = "x"; }),
      ElementsAre(HasSubstr("canary:none: must be bitwise, is masked (within_noise)")));
}

TEST(Canaries, WithoutAVerdictAreProblems) {
  EXPECT_THAT(
      problems_after([](Rows& rows) { find(rows, "serial", "canary:none").result->replicas[0].clear(); }),
      ElementsAre(HasSubstr("0 evaluations")));
}

TEST(Canaries, EveryRepetitionCounts) {
  EXPECT_THAT(problems_after([](Rows& rows) {
                rows.push_back(find(rows, "serial", "canary:none"));
                rows.back().id.draw = 1;
                rows.back().result->final_digest = "x";
              }),
              ElementsAre(HasSubstr("canary:none")));
}

}  // namespace
}  // namespace bitrift::analyze::controls_test
