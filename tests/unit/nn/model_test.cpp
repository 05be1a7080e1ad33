#include "nn/layer/model.h"

#include <map>

#include <gmock/gmock.h>

#include "nn/make_layers.h"
#include "tests_support.h"

namespace bitrift::nn::model_test {
namespace {

using testing::HasSubstr;
using Shape = std::vector<std::int64_t>;
using Cuts = std::vector<std::pair<std::size_t, std::size_t>>;

ModelDescription lenet(std::int64_t side = 8) {
  return {.name = record::ModelName::lenet, .input = {1, side, side}, .classes = 10};
}
ModelDescription mlp(bool norm) {
  return {.hidden = {48, 24}, .batch_norm = norm, .input = {1, 8, 8}, .classes = 10};
}

Stage whole(const ModelDescription& description, std::uint64_t seed) {
  auto layers = make_layers(description);
  const std::size_t count = layers.size();
  return {std::move(layers), 0, count, seed};
}

std::map<std::string, Shape> shapes(const Stage& stage) {
  std::map<std::string, Shape> result;
  for (const Slot& slot : stage.slots()) result[slot.key] = slot.shape;
  return result;
}

Cuts cut(const std::vector<double>& costs, int stages) { return cut_layers(costs, stages); }

TEST(LeNet, HasTheKeysAndShapesOfItsStateDict) {
  const std::map<std::string, Shape> expected = {{"conv1.weight", {6, 1, 5, 5}},  {"conv1.bias", {6}},
                                                 {"conv2.weight", {16, 6, 5, 5}}, {"conv2.bias", {16}},
                                                 {"fc1.weight", {120, 64}},       {"fc1.bias", {120}},
                                                 {"fc2.weight", {84, 120}},       {"fc2.bias", {84}},
                                                 {"fc3.weight", {10, 84}},        {"fc3.bias", {10}}};
  EXPECT_EQ(shapes(whole(lenet(), 1)), expected);
}

TEST(LeNet, TakesDigitsAndMnistImages) {
  for (const std::int64_t side : {8, 28}) {
    Stage stage = whole(lenet(side), 1);
    EXPECT_EQ(stage.forward(torch::rand({3, 1, side, side}), {.training = true}).y.sizes().vec(),
              (Shape{3, 10}));
  }
  EXPECT_THAT(tests::error_of([] { (void)make_layers(lenet(3)); }), HasSubstr("at least 4x4"));
}

TEST(Mlp, NamesItsNormLayersAndBuffersAsPyTorchDoes) {
  const Stage stage = whole(mlp(true), 1);
  std::vector<std::string> buffers;
  for (const Slot& slot : stage.slots()) {
    if (!slot.trained) buffers.push_back(slot.key);
  }
  EXPECT_THAT(buffers,
              testing::ElementsAre("bn1.running_mean", "bn1.running_var", "bn1.num_batches_tracked",
                                   "bn2.running_mean", "bn2.running_var", "bn2.num_batches_tracked"));
  EXPECT_EQ(shapes(stage).at("bn1.num_batches_tracked"), Shape{});
  EXPECT_EQ(shapes(whole(mlp(false), 1)).size(), 6U);
}

TEST(Mlp, EvaluationLeavesRunningStatisticsAlone) {
  Stage stage = whole(mlp(true), 1);
  const auto tracked = [&] { return stage.slots()[6].value.item<std::int64_t>(); };
  (void)stage.forward(torch::rand({4, 1, 8, 8}), {});
  EXPECT_EQ(tracked(), 0);
  (void)stage.forward(torch::rand({4, 1, 8, 8}), {.training = true});
  EXPECT_EQ(tracked(), 1);
}

TEST(Initialisation, IsAFunctionOfSeedAndKey) {
  const Stage one = whole(lenet(), 1), again = whole(lenet(), 1), two = whole(lenet(), 2);
  for (std::size_t i = 0; i < one.slots().size(); ++i) {
    EXPECT_TRUE(one.slots()[i].value.equal(again.slots()[i].value));
    EXPECT_FALSE(one.slots()[i].value.equal(two.slots()[i].value));
  }
}

TEST(Initialisation, FillsPyTorchsRange) {
  const Stage stage = whole(lenet(), 3);
  for (const Slot& slot : stage.slots()) {
    const double bound = slot.init.scale;
    EXPECT_LE(slot.value.abs().max().item<double>(), bound) << slot.key;
    if (slot.value.numel() > 1000) {
      EXPECT_GT(slot.value.abs().max().item<double>(), 0.99 * bound) << slot.key;
      EXPECT_NEAR(slot.value.mean().item<double>(), 0, 0.05 * bound) << slot.key;
      EXPECT_NEAR(slot.value.var().item<double>(), bound * bound / 3, 0.05 * bound * bound) << slot.key;
    }
  }
}

TEST(Stages, TogetherAreTheWholeModelBitForBit) {
  Stage model = whole(mlp(true), 9);
  torch::Tensor x = torch::rand({5, 1, 8, 8});
  const torch::Tensor expected = model.forward(x, {.training = true}).y;
  std::size_t slot = 0;
  for (const auto& [first, last] : cut_layers(estimated_costs(make_layers(mlp(true))), 3)) {
    Stage stage(make_layers(mlp(true)), first, last, 9);
    EXPECT_EQ(stage.all_slots().size(), model.slots().size());
    for (const Slot& mine : stage.slots()) {
      EXPECT_EQ(mine.key, model.slots()[slot].key);
      EXPECT_TRUE(!mine.trained || mine.value.equal(model.slots()[slot].value)) << mine.key;
      ++slot;
    }
    x = stage.forward(x, {.training = true}).y;
  }
  EXPECT_EQ(slot, model.slots().size());
  EXPECT_TRUE(x.equal(expected));
}

TEST(CutLayers, MinimisesTheCostliestStage) {
  EXPECT_EQ(cut({1, 1, 1, 1}, 2), (Cuts{{0, 2}, {2, 4}}));
  EXPECT_EQ(cut({9, 1, 1, 1}, 2), (Cuts{{0, 1}, {1, 4}}));
  EXPECT_EQ(cut({1, 1, 1, 9}, 2), (Cuts{{0, 3}, {3, 4}}));
  EXPECT_EQ(cut({4, 2, 4, 2, 5}, 3), (Cuts{{0, 2}, {2, 4}, {4, 5}}));
  EXPECT_EQ(cut({5}, 1), (Cuts{{0, 1}}));
}

TEST(CutLayers, AmongEqualsEarlyStagesEndFirst) {
  EXPECT_EQ(cut({1, 1, 1}, 2), (Cuts{{0, 1}, {1, 3}}));
  EXPECT_EQ(cut({0, 0, 0}, 2), (Cuts{{0, 1}, {1, 3}}));
}

TEST(CutLayers, CutsLeNetAfterItsConvolutions) {
  EXPECT_EQ(cut_layers(estimated_costs(make_layers(lenet())), 2), (Cuts{{0, 2}, {2, 5}}));
}

TEST(CutLayers, MoreStagesThanLayersAreRefused) {
  EXPECT_EQ(cut({1, 1}, 2).size(), 2U);
  EXPECT_THAT(tests::error_of([] { (void)cut({1, 1}, 3); }), HasSubstr("3 stages"));
}

}  // namespace
}  // namespace bitrift::nn::model_test
