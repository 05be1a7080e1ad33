// What the convolutional models compute: small ones, on random images.
#include <cmath>
#include <numeric>

#include <gmock/gmock.h>

#include "nn/layer/model.h"
#include "nn/make_layers.h"
#include "nn/vision/vision_parts.h"
#include "tests_support.h"

namespace bitrift::nn::vision_pass_test {
namespace {

constexpr std::int64_t rows = 4, classes = 10;

struct Case {
  std::string name;
  std::int64_t side;  // the least one, or a little more
  std::int64_t channels = 3;
  bool cifar_stem = false;
};

void PrintTo(const Case& value, std::ostream* out) { *out << value.name << " " << value.side; }

class VisionPass : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { torch::set_num_threads(2); }

  [[nodiscard]] static ModelDescription description() {
    const Case& param = GetParam();
    return {.name = parse_named<record::ModelName>(param.name),
            .input = {param.channels, param.side, param.side},
            .classes = classes,
            .small = true,
            .cifar_stem = param.cifar_stem};
  }
  [[nodiscard]] static Stage whole(const ModelDescription& model, torch::ScalarType dtype = torch::kFloat32) {
    auto layers = make_layers(model);
    const std::size_t count = layers.size();
    return {std::move(layers), 0, count, 5, {.dtype = dtype}};
  }
  [[nodiscard]] static torch::Tensor images(torch::ScalarType dtype = torch::kFloat32) {
    const Case& param = GetParam();
    torch::manual_seed(11);
    return torch::randn({rows, param.channels, param.side, param.side}).to(dtype);
  }
  [[nodiscard]] Pass training() const {
    return {.training = true, .seed = 5, .step = 2, .samples = samples_};
  }
  [[nodiscard]] static torch::Tensor loss(const StageOutput& output) {
    const torch::Tensor labels = torch::arange(rows);
    torch::Tensor sum = torch::cross_entropy_loss(output.y, labels);
    for (const torch::Tensor& logits : output.auxiliary) {
      sum = sum + auxiliary_weight * torch::cross_entropy_loss(logits, labels);
    }
    return sum;
  }

 private:
  std::vector<std::int64_t> samples_ = {3, 14, 15, 92};
};

TEST_P(VisionPass, LayersGiveTheShapesThatTheySay) {
  auto layers = make_layers(description());
  torch::Tensor x = images();
  const torch::NoGradGuard guard;
  for (const auto& layer : layers) {
    EXPECT_EQ(x.sizes().slice(1).vec(), layer->input_shape()) << layer->name();
    EXPECT_GT(layer->cost(), 0) << layer->name();
    layer->build(5, {});
    x = layer->forward(x, training());
    EXPECT_EQ(x.sizes().slice(1).vec(), layer->output_shape()) << layer->name();
    if (layer->has_auxiliary()) {
      EXPECT_EQ(layer->auxiliary(x, training()).sizes().vec(), (Shape{rows, classes})) << layer->name();
    }
  }
  EXPECT_EQ(x.sizes().vec(), (Shape{rows, classes}));
}

TEST_P(VisionPass, GradientFlowsToEveryParameter) {
  Stage model = whole(description());
  loss(model.forward(images(), training())).backward();
  for (const Slot& slot : model.slots()) {
    if (!slot.trained) continue;
    ASSERT_TRUE(slot.value.grad().defined()) << slot.key;
    EXPECT_TRUE(slot.value.grad().isfinite().all().item<bool>()) << slot.key;
    EXPECT_GT(slot.value.grad().abs().max().item<double>(), 0) << slot.key;
  }
}

TEST_P(VisionPass, StagesTogetherAreTheWholeModelBitForBit) {
  Stage model = whole(description());
  const StageOutput expected = model.forward(images(), training());
  const auto costs = estimated_costs(make_layers(description()));
  for (const int count : {3, 4}) {
    torch::Tensor x = images();
    std::vector<torch::Tensor> auxiliary;
    std::size_t next = 0;
    for (const auto& [first, last] : cut_layers(costs, count)) {
      Stage stage(make_layers(description()), first, last, 5);
      StageOutput output = stage.forward(x, training());
      x = output.y;
      auxiliary.insert(auxiliary.end(), output.auxiliary.begin(), output.auxiliary.end());
      for (const Slot& slot : stage.slots()) {
        const Slot& other = model.slots().at(next++);
        EXPECT_EQ(slot.key, other.key);
        EXPECT_TRUE(slot.value.equal(other.value)) << slot.key;
      }
    }
    EXPECT_EQ(next, model.slots().size());
    EXPECT_TRUE(x.equal(expected.y)) << count << " stages";
    ASSERT_EQ(auxiliary.size(), expected.auxiliary.size());
    for (std::size_t i = 0; i < auxiliary.size(); ++i)
      EXPECT_TRUE(auxiliary[i].equal(expected.auxiliary[i])) << i;
  }
}

// Both stages see the gradients that the whole model sees: what a pipeline relies on.
TEST_P(VisionPass, GradientsThroughACutAreThoseOfTheWholeBitForBit) {
  Stage model = whole(description());
  loss(model.forward(images(), training())).backward();
  const std::size_t count = make_layers(description()).size();
  for (const std::size_t cut : {std::size_t{1}, std::size_t{3}, count / 2, count - 1}) {
    Stage front(make_layers(description()), 0, cut, 5), back(make_layers(description()), cut, count, 5);
    StageOutput sent = front.forward(images(), training());
    const torch::Tensor received = sent.y.detach().requires_grad_(true);
    const StageOutput output = back.forward(received, training());
    loss(output).backward();
    std::vector<torch::Tensor> roots = {sent.y}, gradients = {received.grad()};
    for (const torch::Tensor& logits : sent.auxiliary) {
      roots.push_back(auxiliary_weight * torch::cross_entropy_loss(logits, torch::arange(rows)));
      gradients.push_back(torch::ones({}));
    }
    torch::autograd::backward(roots, gradients);
    std::vector<Slot> slots = front.slots();
    slots.insert(slots.end(), back.slots().begin(), back.slots().end());
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (!slots[i].trained) continue;
      EXPECT_TRUE(slots[i].value.grad().equal(model.slots()[i].value.grad())) << slots[i].key << " " << cut;
    }
  }
}

TEST_P(VisionPass, EvaluationIsRepeatableAndLeavesTheStateAlone) {
  Stage model = whole(description());
  (void)model.forward(images(), training());
  std::vector<torch::Tensor> before;
  for (const Slot& slot : model.slots()) before.push_back(slot.value.detach().clone());
  const StageOutput one = model.forward(images(), {}), two = model.forward(images(), {});
  EXPECT_TRUE(one.y.equal(two.y));
  EXPECT_TRUE(one.auxiliary.empty());
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(before[i].equal(model.slots()[i].value)) << model.slots()[i].key;
}

TEST_P(VisionPass, TrainingCountsABatchInEveryNormalisation) {
  Stage model = whole(description());
  (void)model.forward(images(), training());
  (void)model.forward(images(), training());
  for (const Slot& slot : model.slots()) {
    if (slot.counter) {
      EXPECT_EQ(slot.value.item<std::int64_t>(), 2) << slot.key;
    }
    if (slot.key.ends_with("running_mean")) {
      EXPECT_GT(slot.value.abs().max().item<float>(), 0) << slot.key;
    }
  }
}

TEST_P(VisionPass, LeavesItsInputAlone) {
  Stage model = whole(description());
  const torch::Tensor x = images(), copy = x.clone();
  (void)model.forward(x, training());
  EXPECT_TRUE(x.equal(copy));
}

TEST_P(VisionPass, RunsInOtherTypes) {
  for (const torch::ScalarType dtype : {torch::kFloat64, torch::kBFloat16}) {
    Stage model = whole(description(), dtype);
    const StageOutput output = model.forward(images(dtype), training());
    EXPECT_EQ(output.y.scalar_type(), dtype);
    loss(output).backward();
    for (const Slot& slot : model.slots()) {
      EXPECT_EQ(slot.value.scalar_type(), slot.counter ? torch::kInt64 : dtype) << slot.key;
      if (slot.trained) {
        EXPECT_EQ(slot.value.grad().scalar_type(), dtype) << slot.key;
      }
    }
  }
}

TEST_P(VisionPass, DropoutIsThatOfTheDescription) {
  const std::string name = GetParam().name;
  const bool drops = name == "alexnet" || name.starts_with("vgg16") || name == "googlenet";
  ModelDescription without = description();
  without.dropout = 0;
  const auto logits = [&](const ModelDescription& model, std::int64_t step) {
    Pass pass = training();
    pass.step = step;
    return whole(model).forward(images(), pass).y;
  };
  EXPECT_EQ(!logits(description(), 2).equal(logits(description(), 3)), drops);
  EXPECT_EQ(!logits(description(), 2).equal(logits(without, 2)), drops);
  EXPECT_TRUE(logits(without, 2).equal(logits(without, 3)));
}

INSTANTIATE_TEST_SUITE_P(Models, VisionPass,
                         testing::Values(Case{"resnet20", 9}, Case{"resnet18", 33, 1},
                                         Case{"resnet18", 8, 3, true}, Case{"resnet50", 33},
                                         Case{"resnet50", 8, 1, true}, Case{"alexnet", 63, 1},
                                         Case{"vgg16", 32}, Case{"vgg16_bn", 32, 1}, Case{"googlenet", 15, 1},
                                         Case{"googlenet", 33}));

struct Distribution {
  std::string model, key;
  double deviation;
  bool normal;
};

TEST(VisionInitialisation, HasTheDistributionsOfTorchvision) {
  const std::vector<Distribution> expected = {
      {"resnet18", "layer2.0.conv1.weight", std::sqrt(2.0 / (128 * 9)), true},
      {"resnet18", "layer2.0.downsample.0.weight", std::sqrt(2.0 / 128), true},
      {"resnet18", "fc.weight", 1 / std::sqrt(3.0 * 512), false},
      {"resnet20", "layer3.1.conv2.weight", std::sqrt(2.0 / (64 * 9)), true},
      {"resnet50", "layer1.0.conv3.weight", std::sqrt(2.0 / 256), true},
      {"vgg16", "features.5.weight", std::sqrt(2.0 / (128 * 9)), true},
      {"vgg16_bn", "features.3.weight", std::sqrt(2.0 / (64 * 9)), true},
      {"vgg16", "classifier.6.weight", 0.01, true},
      {"alexnet", "features.3.weight", 1 / std::sqrt(3.0 * 64 * 25), false},
      {"alexnet", "features.0.weight", 1 / std::sqrt(3.0 * 3 * 121), false},
      {"alexnet", "classifier.6.weight", 1 / std::sqrt(3.0 * 4096), false},
      {"googlenet", "inception3a.branch2.1.conv.weight", 0.01, true},
      {"googlenet", "aux1.conv.conv.weight", 0.01, true},
      {"googlenet", "aux2.fc2.weight", 0.01, true},
      {"googlenet", "fc.weight", 0.01, true}};
  for (const Distribution& row : expected) {
    bool found = false;
    for (const auto& layer : make_layers(
             {.name = parse_named<record::ModelName>(row.model), .input = {3, 64, 64}, .classes = 100})) {
      for (const Slot& slot : layer->slots()) {
        if (slot.key != row.key) continue;
        found = true;
        layer->build(1, {});
      }
      for (const Slot& slot : layer->slots()) {
        if (slot.key != row.key) continue;
        const double count = static_cast<double>(slot.value.numel());
        const double deviation = slot.value.std().item<double>(),
                     most = slot.value.abs().max().item<double>();
        EXPECT_NEAR(deviation / row.deviation, 1, 4 / std::sqrt(2 * count)) << row.model << " " << row.key;
        EXPECT_NEAR(slot.value.mean().item<double>(), 0, 4 * row.deviation / std::sqrt(count)) << row.key;
        // A uniform distribution ends at sqrt(3) deviations; of so many normal numbers some lie beyond 3.
        if (row.normal) {
          EXPECT_GT(most, 3 * row.deviation) << row.key;
        } else {
          EXPECT_LE(most, std::sqrt(3.0) * row.deviation * (1 + 1e-6)) << row.key;
        }
      }
    }
    EXPECT_TRUE(found) << row.model << " " << row.key;
  }
}

TEST(VisionInitialisation, StartsBiasesAsTorchvisionDoes) {
  const auto scale = [](const std::string& name, const std::string& key) {
    for (const auto& layer :
         make_layers({.name = parse_named<record::ModelName>(name), .input = {3, 64, 64}, .classes = 10})) {
      for (const Slot& slot : layer->slots()) {
        if (slot.key == key) return slot.init.scale;
      }
    }
    return -1.0;
  };
  EXPECT_EQ(scale("vgg16", "features.0.bias"), 0);
  EXPECT_EQ(scale("vgg16_bn", "features.0.bias"), 0);
  EXPECT_EQ(scale("vgg16", "classifier.6.bias"), 0);
  EXPECT_EQ(scale("alexnet", "features.3.bias"), 1 / std::sqrt(64.0 * 25));
  EXPECT_EQ(scale("alexnet", "classifier.6.bias"), 1 / std::sqrt(4096.0));
  EXPECT_EQ(scale("resnet18", "fc.bias"), 1 / std::sqrt(512.0));
  EXPECT_EQ(scale("googlenet", "fc.bias"), 1 / std::sqrt(1024.0));
  EXPECT_EQ(scale("googlenet", "aux1.fc1.bias"), 1 / std::sqrt(2048.0));
  EXPECT_EQ(scale("googlenet", "conv1.bn.weight"), 1);
}

TEST(GoogLeNet, HasAuxiliaryHeadsInTrainingUnlessSwitchedOff) {
  const auto heads = [](bool auxiliary, bool training) {
    const ModelDescription model{.name = record::ModelName::googlenet,
                                 .input = {1, 32, 32},
                                 .classes = 10,
                                 .small = true,
                                 .auxiliary = auxiliary};
    auto layers = make_layers(model);
    std::vector<std::string> with;
    for (const auto& layer : layers) {
      if (layer->has_auxiliary()) with.push_back(layer->name());
    }
    const std::vector<std::string> both = {"inception4a", "inception4d"};
    EXPECT_EQ(with, auxiliary ? both : std::vector<std::string>());
    const std::size_t count = layers.size();
    Stage stage(std::move(layers), 0, count, 1);
    const std::vector<std::int64_t> samples = {0, 1};
    return stage.forward(torch::rand({2, 1, 32, 32}), {.training = training, .samples = samples})
        .auxiliary.size();
  };
  EXPECT_EQ(heads(true, true), 2U);
  EXPECT_EQ(heads(true, false), 0U);
  EXPECT_EQ(heads(false, true), 0U);
}

TEST(AdaptivePool, InOrderIsThatOfPyTorchUpToRounding) {
  for (const std::int64_t side : {1, 4, 6, 7}) {
    for (const Shape& size : {Shape{1, 1}, Shape{6, 6}, Shape{7, 3}, Shape{14, 13}}) {
      const torch::Tensor x = torch::rand({2, 3, size[0], size[1]}, torch::kFloat64).requires_grad_(true);
      const torch::Tensor weight = torch::rand({2, 3, side, side}, torch::kFloat64);
      const auto run = [&](const torch::Tensor& y) {
        return std::pair(y, torch::autograd::grad({(y * weight).sum()}, {x})[0]);
      };
      const auto [y, gradient] = run(adaptive_pool_in_order(x, side));
      const auto [expected, expected_gradient] = run(torch::adaptive_avg_pool2d(x, {side, side}));
      EXPECT_TRUE(y.allclose(expected, 1e-14, 1e-14)) << side << " from " << size[0];
      EXPECT_TRUE(gradient.allclose(expected_gradient, 1e-14, 1e-14)) << side << " from " << size[0];
    }
  }
}

// The shortcut of option A: every other pixel, between channels of zeros (He et al., section 3.3).
TEST(ResNet20, ItsShortcutsSkipPixelsAndPadChannels) {
  auto layers =
      make_layers({.name = record::ModelName::resnet20, .input = {1, 8, 8}, .classes = 10, .small = true});
  Layer& block = *layers[4];
  ASSERT_EQ(block.name(), "layer2.0");
  block.build(std::nullopt, {});  // zeros: nothing but the shortcut is left
  const torch::Tensor x = torch::rand({2, 4, 8, 8});
  const torch::Tensor y = block.forward(x, {});
  EXPECT_EQ(y.sizes().vec(), (Shape{2, 8, 4, 4}));
  EXPECT_EQ(y.index_select(1, torch::tensor({0, 1, 6, 7})).abs().max().item<float>(), 0);
  const torch::Tensor even = torch::tensor({0, 2, 4, 6});
  EXPECT_TRUE(y.slice(1, 2, 6).equal(x.index_select(2, even).index_select(3, even)));
}

}  // namespace
}  // namespace bitrift::nn::vision_pass_test
