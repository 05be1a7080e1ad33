#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "record/outcome.h"
#include "record/provenance.h"
#include "record/round.h"
#include "record/trial.h"
#include "record/worker_message.h"
#include "tests_support.h"

namespace bitrift::record::row_test {
namespace {

TrialRecord example() {
  TrialRecord row;
  row.id = {"data-2", "weight.exponent", 7};
  row.stratum_bits = 158'000;
  row.faults.bits().append(
      {"model/conv1.weight", "weight", 3, "float32", {30}, "exponent", 0x3f800000, 0x7f800000});
  row.landed = true;
  RunResult result;
  result.id = row.id.text();
  result.replicas = {{{11, 22, 0.1, 0.99, std::nan(""), 0.5, std::nan("")}},
                     {{11, 22, 0.1, 0.99, INFINITY, 0.25, 2.25}}};
  result.test_targets = 360;
  result.status = record::RunStatus::nonfinite;
  result.nonfinite_step = 22;
  result.replica_digests = {"a", "b"};
  result.changed_tensors = {"model/conv1.weight"};
  result.last_loss = "0x1p+0";
  result.seconds = 0.25;
  row.result = result;
  row.started = "2026-01-01T00:00:00.000Z";
  row.host = "here";
  row.seconds = 0.5;
  row.attempts = 2;
  return row;
}

TEST(TrialRecord, SurvivesJsonNonFiniteMetricsIncluded) {
  const TrialRecord row = example();
  const TrialRecord back = trial_record_from_json(Json::parse(to_json(row).dump()));
  EXPECT_EQ(to_json(back), to_json(row));
  EXPECT_TRUE(std::isnan(back.result->replicas[0][0].test_loss.value()));
  EXPECT_TRUE(std::isnan(back.result->replicas[0][0].test_capped_loss.value()));
  EXPECT_EQ(back.result->replicas[1][0].test_capped_loss, 2.25);
  EXPECT_EQ(back.result->test_targets, 360);
  EXPECT_EQ(back.faults, row.faults);
  EXPECT_EQ(back.attempts, 2);
}

TEST(TrialRecord, StableFormIgnoresTimeHostAndAttemptsOnly) {
  TrialRecord other = example();
  other.started = "2027";
  other.host = "there";
  other.seconds = 9;
  other.attempts = 1;
  other.result->seconds = 8;
  EXPECT_EQ(stable_json(other), stable_json(example()));
  other.result->last_loss = "0x1.8p+0";
  EXPECT_NE(stable_json(other), stable_json(example()));
}

TEST(TrialRecord, ARowWithNeitherResultNorFailureIsRefused) {
  Json value = to_json(example());
  value.erase("result");
  EXPECT_THROW((void)trial_record_from_json(value), Error);
  value["failure"] = {{"reason", "bored"}, {"detail", ""}, {"signal", 0}};
  EXPECT_THROW((void)trial_record_from_json(value), Error);
  value["failure"]["reason"] = "hang";
  EXPECT_EQ(trial_record_from_json(value).failure->reason, FailureReason::hang);
}

// What ranks were to do, and how long the recovery took.
TrialRecord process_example() {
  TrialRecord row = example();
  row.id.stratum = "process.backward";
  row.faults = std::vector<ProcessFault>{{2, 5, TrainingPhase::backward, 1, FailureMode::kill},
                                         {0, 5, TrainingPhase::recovery, 3, FailureMode::stop}};
  row.result->recoveries = {{.kind = RecoveryKind::shrink,
                             .state = StateSource::replica,
                             .failed = {0, 2},
                             .ranks_before = 4,
                             .ranks_after = 2,
                             .step = 4,
                             .steps_redone = 1,
                             .bytes_moved = 10,
                             .times = {.detect = 0.5, .shrink = 0.25}}};
  return row;
}

TEST(TrialRecord, ProcessesThatFailSurviveJsonWithTheirRecoveries) {
  const TrialRecord row = process_example();
  const Json value = to_json(row);
  EXPECT_EQ(value["faults"][1]["process"]["phase"], "recovery");
  EXPECT_FALSE(value.contains("plane") || value.contains("measure"));
  const TrialRecord back = trial_record_from_json(Json::parse(value.dump()));
  EXPECT_EQ(to_json(back), value);
  EXPECT_EQ(back.faults, row.faults);
  EXPECT_TRUE(back.faults.of_processes());
  EXPECT_EQ(back.result->recoveries.at(0).times.detect, 0.5);
  EXPECT_EQ(back.result->recoveries.at(0).times.shrink, 0.25);
}

TEST(TrialRecord, StableFormIgnoresHowLongARecoveryTookAndNothingElseOfIt) {
  TrialRecord other = process_example();
  other.result->recoveries[0].times = {.detect = 1, .revoke = 9};
  EXPECT_EQ(stable_json(other), stable_json(process_example()));
  EXPECT_NE(to_json(other), to_json(process_example()));
  other.result->recoveries[0].bytes_moved = 11;
  EXPECT_NE(stable_json(other), stable_json(process_example()));
}

TEST(TrialRecord, FaultsOfTwoKindsAndTimesOfNoRecoveryAreRefused) {
  Json mixed = to_json(process_example());
  mixed["faults"].push_back(to_json(example())["faults"][0]);
  EXPECT_THROW((void)trial_record_from_json(mixed), Error);
  Json more = to_json(process_example());
  more["volatile"]["recoveries"].push_back(more["volatile"]["recoveries"][0]);
  EXPECT_THROW((void)trial_record_from_json(more), Error);
}

TEST(Faults, KeepOneKindAtATime) {
  Faults faults;
  EXPECT_TRUE(faults.empty() && !faults.of_processes());
  faults = std::vector<ProcessFault>{{1, 2, TrainingPhase::reduce, 0, FailureMode::exit}};
  EXPECT_EQ(faults.size(), 1U);
  EXPECT_TRUE(faults.bits().empty() || !faults.of_processes());
  faults.bits().append(example().faults.bits().at(0));
  EXPECT_FALSE(faults.of_processes());
  EXPECT_TRUE(faults.processes().empty());
  EXPECT_EQ(faults.size(), 1U);
}

TEST(AppliedFault, PatternsBeyondFiftyThreeBitsStayExact) {
  const AppliedFault fault = {
      "t", "weight", 1, "float64", {0}, "mantissa", 0xfff0000000000001, 0xfff0000000000000};
  const Json value = to_json(fault);
  EXPECT_EQ(value["old"], "0xfff0000000000001");
  EXPECT_EQ(applied_fault_from_json(Json::parse(value.dump())), fault);
  Json bad = value;
  bad["old"] = "0xzz";
  EXPECT_THROW((void)applied_fault_from_json(bad), Error);
}

TEST(WorkerMessage, EveryKindCrossesOneLine) {
  const auto round_trip = [](const WorkerMessage& message) {
    const std::string line = to_line(message);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    return worker_message_from_line(line);
  };
  EXPECT_EQ(std::get<Hello>(round_trip(Hello{1, 2, 77})).pid, 77);
  EXPECT_EQ(std::get<Ready>(round_trip(Ready{"d", {{"a", 1}}})).environment["a"], 1);
  EXPECT_EQ(std::get<Finished>(round_trip(Finished{*example().result})).result.nonfinite_step, 22);
  const auto broken =
      std::get<Broken>(round_trip(Broken{1, {FailureReason::exception, "two\nlines \xff", 0}}));
  EXPECT_EQ(broken.failure.reason, FailureReason::exception);
  EXPECT_THROW(
      (void)worker_message_from_line(R"({"failure":{"rank":1,"reason":"fire","detail":"","signal":0}})"),
      Error);
  EXPECT_THROW((void)worker_message_from_line("{}"), Error);
  EXPECT_THROW((void)worker_message_from_line("not json"), Error);
}

TEST(WorkerMessage, RequestsCrossOneLineAndNoneMeansQuit) {
  RunRequest request{"a/b/0", "/x y/c.h5", 2, 18446744073709551615u, Drill::hang};
  const auto back = run_request_from_line(to_line(std::optional(request)));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->order_seed, request.order_seed);
  EXPECT_EQ(back->drill, Drill::hang);
  EXPECT_FALSE(run_request_from_line(to_line(std::optional<RunRequest>{})).has_value());
  EXPECT_THROW((void)run_request_from_line("{\"run\":{}}"), Error);
  EXPECT_THROW(
      (void)run_request_from_line(R"({"run":{"id":"a","checkpoint":"c","epochs":1,"drill":"sleep"}})"),
      Error);
}

TEST(Outcome, EveryReasonHasAClassAndAName) {
  EXPECT_EQ(class_of(Reason::bitwise), OutcomeClass::masked);
  EXPECT_EQ(class_of(Reason::low_test_accuracy), OutcomeClass::sdc);
  EXPECT_EQ(class_of(Reason::nonfinite), OutcomeClass::crash);
  EXPECT_STREQ(name_of(Reason::high_test_loss), "high_test_loss");
  EXPECT_STREQ(name_of(OutcomeClass::sdc), "SDC");
}

TEST(Round, AStopThatNoRoundHasIsRefused) {
  Json value = to_json(Round{});
  EXPECT_FALSE(round_from_json(value).stop);
  value["stop"] = "max_trials";
  EXPECT_EQ(round_from_json(value).stop, Stop::max_trials);
  EXPECT_EQ(to_json(round_from_json(value)), value);
  value["stop"] = "tired";
  EXPECT_THROW((void)round_from_json(value), Error);
}

TEST(Provenance, NamesWhatARunDependsOn) {
  const Json value = provenance({"bitrift", "ls"});
  for (const char* key :
       {"schema_version", "bitrift", "commit", "build_type", "host", "processor", "command", "time"}) {
    EXPECT_TRUE(value.contains(key)) << key;
  }
  EXPECT_EQ(utc_now().size(), 24u);
}

}  // namespace
}  // namespace bitrift::record::row_test
