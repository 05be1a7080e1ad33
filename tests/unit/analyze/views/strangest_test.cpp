#include "analyze/views/strangest.h"

#include <limits>

#include <gmock/gmock.h>

#include "unit/analyze/study.h"

namespace bitrift::analyze::strangest_test {
namespace {

using testing::add_trials;
using testing::clean_arm;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::spec_of;
using Rows = std::vector<record::TrialRecord>;

record::AppliedFault fault(std::uint64_t old_pattern, std::uint64_t new_pattern,
                           const std::string& dtype = "float32") {
  return {"model/w", "weight", 12, dtype, {30}, "exponent", old_pattern, new_pattern};
}

std::vector<std::uint64_t> draws(const std::vector<StrangeFault>& faults) {
  std::vector<std::uint64_t> draws;
  for (const StrangeFault& one : faults) draws.push_back(one.line.row->id.draw);
  return draws;
}

class StrangestTrials : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* arm : {"serial", "data-2"}) {
      const Rows clean = clean_arm(arm);
      rows_.insert(rows_.end(), clean.begin(), clean.end());
      add_trials(rows_, arm, "weight.sign", 1000, 4, 3,
                 5);  // draws 0 to 3 masked, 4 to 6 SDC, 7 to 11 crashes
    }
  }
  record::TrialRecord& row(const std::string& arm, std::uint64_t draw) {
    for (record::TrialRecord& one : rows_) {
      if (one.kind == record::TrialKind::trial && one.id.arm == arm && one.id.draw == draw) return one;
    }
    throw std::logic_error("no such row");
  }
  [[nodiscard]] Strangest found(std::size_t most = 10) const {
    const Trust trust = trust_of(rows_, judging_of(spec_of({"serial", "data-2"})));
    return strangest(trials_view(rows_, trust), trust.judging, most);
  }
  Rows rows_;
};

TEST_F(StrangestTrials, TheMostHarmedSdcComesFirstAndNamesEveryArm) {
  row("data-2", 5).result->replicas[0][0].test_accuracy = 0.01;
  const auto worst = found().worst;
  EXPECT_EQ(draws(worst).front(), 5U);
  EXPECT_EQ(worst.size(), 3U);
  EXPECT_EQ(worst.front().line.row->id.arm, "data-2");
  EXPECT_THAT(worst.front().arms, ElementsAre("data-2", "serial"));
  EXPECT_EQ(found(2).worst.size(), 2U);
}

TEST_F(StrangestTrials, AnotherFaultUnderTheSameNumberIsAnotherEntry) {
  row("serial", 4).faults.bits().append(fault(0, 1));
  EXPECT_EQ(found().worst.size(), 4U);
}

TEST_F(StrangestTrials, TheRarestReasonComesFirstAndNoneFillsTheList) {
  for (const char* arm : {"serial", "data-2"}) {
    row(arm, 11).result.reset();
    row(arm, 11).failure = record::Failure{record::FailureReason::hang, "", 0};
  }
  EXPECT_THAT(draws(found().rare), ElementsAre(11, 7, 8, 9));
}

TEST_F(StrangestTrials, MaskedTrialsAreSortedByTheirLargestChange) {
  EXPECT_THAT(found().unharmed, IsEmpty());
  row("serial", 1).faults.bits().append(fault(0x3f800000, 0x40000000));  // 1 becomes 2
  row("serial", 3).faults.bits().append(fault(0x3f800000, 0x41200000));  // 1 becomes 10
  row("serial", 2).faults.bits().append(fault(0x3f800000, 0x7f800000));  // 1 becomes infinite
  EXPECT_THAT(draws(found().unharmed), ElementsAre(2, 3, 1));
  EXPECT_THAT(draws(found(1).unharmed), ElementsAre(2));
}

TEST_F(StrangestTrials, TheLargestChangeIsThatOfTheNumbers) {
  record::TrialRecord& one = row("serial", 0);
  EXPECT_EQ(largest_change(one), 0);
  one.faults.bits().append(fault(0x3f800000, 0xc0000000));  // 1 becomes -2
  EXPECT_EQ(largest_change(one), 3);
  one.faults.bits().append(fault(5, 250, "uint8"));
  EXPECT_EQ(largest_change(one), 245);
  one.faults.bits().append(fault(0x7fc00000, 0x3f800000));  // NaN becomes 1
  EXPECT_EQ(largest_change(one), std::numeric_limits<double>::infinity());
}

TEST_F(StrangestTrials, NumbersInMessagesChangeToo) {
  record::AlteredMessage message;
  message.dtype = "float32";
  message.old_pattern = 0x3f800000;
  message.new_pattern = 0x40a00000;  // 1 becomes 5
  row("serial", 2).result->altered_messages = {message};
  EXPECT_EQ(largest_change(row("serial", 2)), 4);
  EXPECT_THAT(draws(found().unharmed), ElementsAre(2));
  message.old_pattern = 0x80000000;
  message.new_pattern = 0;  // -0 is 0
  row("serial", 2).result->altered_messages = {message};
  EXPECT_THAT(found().unharmed, IsEmpty());
}

}  // namespace
}  // namespace bitrift::analyze::strangest_test
