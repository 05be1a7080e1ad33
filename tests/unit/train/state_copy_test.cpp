#include "train/state/state_copy.h"

#include <gmock/gmock.h>

#include "unit/train/small_session.h"

namespace bitrift::train::state_copy_test {
namespace {

using small_session::fault_in;
using small_session::take_step;

Session make_session(std::uint64_t seed) {
  record::TrainingSpec spec;
  spec.model = {.hidden = {8}, .norm = record::Norm::batch};
  spec.optimizer.momentum = 0.9;
  spec.seed = seed;
  return small_session::make_session(spec);
}

TEST(StateCopy, IsTheSameInOneBufferAndTensorByTensor) {
  Session session = make_session(3);
  take_step(session);
  std::string text(100'000, 'x');  // a larger one that held something else
  pack_state(session, text);
  EXPECT_EQ(unpacked(text), copy_state(session));
}

TEST(StateCopy, BringsBackWeightsMomentumStatisticsAndProgress) {
  Session session = make_session(3), other = make_session(4);
  take_step(session);
  const StateCopy kept = copy_state(session);
  EXPECT_GT(
      std::count_if(kept.begin(), kept.end(), [](const auto& one) { return one.first.starts_with("opt"); }),
      0);
  take_step(session);
  ASSERT_NE(copy_state(session), kept);
  restore_session(session, kept);
  EXPECT_EQ(copy_state(session), kept);
  restore_session(other, kept);
  EXPECT_EQ(copy_state(other), kept);
  take_step(session);
  take_step(other);
  EXPECT_EQ(copy_state(session), copy_state(other));
}

TEST(StateCopy, WithoutOptimizerStateIsThatOfAFreshOptimizer) {
  Session session = make_session(3);
  const StateCopy kept = copy_state(session);
  take_step(session);
  restore_session(session, kept);
  EXPECT_EQ(copy_state(session), kept);
}

TEST(StateCopy, NamesATensorThatIsMissingOrHasAnotherSize) {
  Session session = make_session(3);
  const StateCopy whole = copy_state(session);
  for (const auto& [path, bytes] : whole) {
    StateCopy damaged = whole;
    damaged.erase(path);
    EXPECT_THAT(fault_in([&] { restore_session(session, damaged); }), testing::HasSubstr(path));
    damaged[path] = bytes + "x";
    EXPECT_THAT(fault_in([&] { restore_session(session, damaged); }), testing::HasSubstr(path));
  }
}

TEST(StateCopy, RefusesATextThatEndsEarly) {
  const std::string text = packed({{"a", "12"}, {"b", std::string(300, 'b')}});
  ASSERT_EQ(unpacked(text).size(), 2);
  for (std::size_t bytes = 1; bytes < text.size(); ++bytes) {
    if (bytes == 8 + 1 + 8 + 2) continue;  // after the first tensor
    EXPECT_THAT(fault_in([&] { (void)unpacked(text.substr(0, bytes)); }), testing::HasSubstr("ends within"));
  }
}

}  // namespace
}  // namespace bitrift::train::state_copy_test
