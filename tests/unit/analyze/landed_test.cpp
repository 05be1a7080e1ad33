#include "analyze/landed.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze::landed_test {
namespace {

record::TrialRecord trial(bool landed) {
  auto row = testing::finished(record::TrialKind::trial, "serial", "weight.sign", 3,
                               {{testing::evaluation(1, 0.1, 0.97, 0.2, 0.95)}}, "golden");
  row.landed = landed;
  return row;
}

TEST(Landed, ATrialWhoseFaultNeverReachedTheRunIsRefusedByName) {
  EXPECT_NO_THROW(refuse_unless_landed(trial(true)));
  try {
    refuse_unless_landed(trial(false));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_NE(std::string(error.what()).find("serial/weight.sign/3"), std::string::npos);
  }
}

TEST(Landed, RunsWithoutALoadedStateHaveNoneToCompare) {
  record::TrialRecord row = trial(false);
  row.result->status = record::RunStatus::rejected;
  EXPECT_NO_THROW(refuse_unless_landed(row));
  row.result->status = record::RunStatus::nonfinite;
  EXPECT_THROW(refuse_unless_landed(row), Error);
  row.result.reset();
  row.failure = record::Failure{record::FailureReason::signal, "Killed", 9};
  EXPECT_NO_THROW(refuse_unless_landed(row));
}

TEST(Landed, OnlyTrialsAreAsked) {
  record::TrialRecord row = trial(false);
  row.kind = record::TrialKind::canary;
  EXPECT_NO_THROW(refuse_unless_landed(row));
}

}  // namespace
}  // namespace bitrift::analyze::landed_test
