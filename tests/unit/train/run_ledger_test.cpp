#include "train/recover/run_ledger.h"

#include <gmock/gmock.h>

#include "unit/train/small_session.h"

namespace bitrift::train::run_ledger_test {
namespace {

using small_session::fault_in;

Ledger full() {
  Ledger ledger;
  ledger.at = {17, Next::evaluate};
  ledger.terms = {.steps = 40, .epochs = 3, .order = 0xFFFFFFFFFFFFFFFF, .early_end = true};
  ledger.result.id = "spare/process.update/3";
  ledger.result.recoveries.push_back({.kind = record::RecoveryKind::spare, .failed = {2}});
  ledger.first_epoch = 2;
  ledger.last = {
      .epoch = 2, .learning_rate = 0.1, .loss = 1.0 / 3, .correct = 5, .stopped = true, .epoch_ended = true};
  ledger.decision = {{0.25, 64, 9}, true, true, {1.5, 1e-300}};
  ledger.next_look = 20;
  ledger.gap = 4;
  ledger.faults = {{.rank = 1, .step = 30, .phase = record::TrainingPhase::reduce, .point = 2}};
  ledger.file = "checkpoint.h5";
  ledger.batch_size = 48;
  ledger.costs = {1, 2.5};
  ledger.shared = {{"progress/step", std::string("\0\xFF\x80", 3)}};
  ledger.golden = Trajectory{.marks = {{0.5, 7, {"a", "b"}}}, .result = ledger.result};
  return ledger;
}

TEST(Ledger, IsReadBackWhole) {
  const Ledger before = full(), after = ledger_from_text(to_text(before));
  EXPECT_EQ(to_text(after), to_text(before));
  EXPECT_EQ(after.at, before.at);
  EXPECT_EQ(after.terms.steps, 40);
  EXPECT_EQ(after.terms.order, before.terms.order);
  EXPECT_EQ(after.last.loss, 1.0 / 3);
  EXPECT_EQ(after.decision.norms, before.decision.norms);
  EXPECT_TRUE(after.decision.bad_gradient);
  ASSERT_EQ(after.faults.size(), 1);
  EXPECT_EQ(after.faults[0].phase, record::TrainingPhase::reduce);
  EXPECT_EQ(after.shared, before.shared);
  ASSERT_TRUE(after.golden);
  EXPECT_EQ(after.golden->marks.at(0).digests, before.golden->marks[0].digests);
  ASSERT_EQ(after.result.recoveries.size(), 1);
  EXPECT_EQ(after.result.recoveries[0].failed, std::vector<int>{2});
}

TEST(Ledger, LeavesOutWhatIsNotThere) {
  Ledger bare;
  bare.at = {0, Next::step};
  const Ledger after = ledger_from_text(to_text(bare));
  EXPECT_FALSE(after.terms.steps || after.file || after.golden);
  EXPECT_TRUE(after.faults.empty() && after.shared.empty());
}

TEST(Ledger, RefusesATextThatIsCutOff) {
  const std::string text = to_text(full());
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, text.size() / 2, text.size() - 1})
    EXPECT_THAT(fault_in([&] { (void)ledger_from_text(text.substr(0, bytes)); }),
                testing::HasSubstr("a ledger cannot be read"));
}

}  // namespace
}  // namespace bitrift::train::run_ledger_test
