#include "train/golden/golden_states.h"

#include <limits>

#include <gmock/gmock.h>

#include "nn/make_layers.h"
#include "train/run/propagation_runs.h"

namespace bitrift::train::golden_states_test {
namespace {

record::TrainingSpec spec_of() {
  record::TrainingSpec spec;
  spec.model = {.hidden = {8}, .norm = record::Norm::batch};
  spec.optimizer.learning_rate = 0.1;
  spec.optimizer.momentum = 0.9;
  spec.batch_size = 64;
  spec.epochs = 1;
  spec.seed = 3;
  return spec;
}

Session make_session() {
  const record::TrainingSpec spec = spec_of();
  auto layers = nn::make_layers({.hidden = {8}, .batch_norm = true, .input = {1, 2, 2}, .classes = 2});
  const std::size_t count = layers.size();
  return {nn::Stage(std::move(layers), 0, count, spec.seed), spec};
}

torch::Tensor tensor_of(Session& session, const std::string& path) {
  for (const StateTensor& tensor : session.tensors()) {
    if (tensor.meta.path == path) return tensor.value;
  }
  return {};
}

std::vector<std::string> names(const record::StepDrift& drift) {
  std::vector<std::string> result;
  for (const record::TensorDrift& tensor : drift.tensors) result.push_back(tensor.tensor);
  return result;
}

TEST(GoldenStates, AreAsTheyWereWhenKept) {
  const torch::NoGradGuard no_grad;
  Session session = make_session();
  GoldenStates golden;
  golden.clear(false);
  golden.keep(0, session);
  tensor_of(session, "model/fc1.weight").view({-1})[5].mul_(3);
  golden.keep(4, session);
  EXPECT_THAT(golden.compare(4, session).tensors, testing::IsEmpty());
  const record::StepDrift drift = golden.compare(0, session);
  EXPECT_EQ(drift.step, 0);
  ASSERT_EQ(drift.tensors.size(), 1U);
  EXPECT_EQ(drift.tensors[0].tensor, "model/fc1.weight");
  EXPECT_EQ(drift.tensors[0].elements, 32U);
  EXPECT_EQ(drift.tensors[0].altered, 1U);
  EXPECT_NEAR(drift.tensors[0].max, 2, 1e-6);
  EXPECT_THROW((void)golden.compare(1, session), Error);
}

TEST(GoldenStates, HoldOptimizerStateWhenAskedTo) {
  const torch::NoGradGuard no_grad;
  Session session = make_session();
  session.optimizer().allocate();
  GoldenStates golden;
  for (const bool optimizer : {false, true}) {
    golden.clear(optimizer);
    golden.keep(1, session);
    const torch::Tensor momentum = tensor_of(session, "optimizer/momentum_buffer/fc2.bias");
    momentum.add_(1);
    EXPECT_EQ(golden.compare(1, session).tensors.size(), optimizer ? 1U : 0U);
    momentum.zero_();
  }
}

TEST(GoldenStates, TakeOptimizerStateThatOnlyOneRunHasForZeros) {
  const torch::NoGradGuard no_grad;
  Session before = make_session();
  Session after = make_session();
  after.optimizer().allocate();
  GoldenStates golden;
  golden.clear(true);
  golden.keep(1, before);
  EXPECT_THAT(golden.compare(1, after).tensors, testing::IsEmpty());
  tensor_of(after, "optimizer/momentum_buffer/fc2.bias").add_(1);
  const record::StepDrift made = golden.compare(1, after);
  EXPECT_THAT(names(made), testing::ElementsAre("optimizer/momentum_buffer/fc2.bias"));
  EXPECT_EQ(made.tensors.at(0).norm, std::numeric_limits<double>::infinity());
  golden.clear(true);
  golden.keep(1, after);
  const record::StepDrift missing = golden.compare(1, before);
  EXPECT_THAT(names(missing), testing::ElementsAre("optimizer/momentum_buffer/fc2.bias"));
  EXPECT_EQ(missing.tensors.at(0).norm, 1);
}

}  // namespace
}  // namespace bitrift::train::golden_states_test
