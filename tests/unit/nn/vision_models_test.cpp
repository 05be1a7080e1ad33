// What the convolutional models say of themselves before a tensor exists.
#include <algorithm>
#include <map>
#include <numeric>

#include <gmock/gmock.h>

#include "nn/layer/model.h"
#include "nn/make_layers.h"
#include "tests_support.h"

namespace bitrift::nn::vision_models_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Shape = std::vector<std::int64_t>;
using Layers = std::vector<std::unique_ptr<Layer>>;

ModelDescription photos(const std::string& name, std::int64_t side = 224) {
  return {.name = parse_named<record::ModelName>(name), .input = {3, side, side}, .classes = 1000};
}

std::int64_t parameters(const Layers& layers) {
  std::int64_t sum = 0;
  for (const auto& layer : layers) {
    for (const Slot& slot : layer->slots()) {
      std::int64_t count = slot.trained ? 1 : 0;
      for (const std::int64_t extent : slot.shape) count *= extent;
      sum += count;
    }
  }
  return sum;
}

std::int64_t total_cost(const ModelDescription& model) {
  std::int64_t sum = 0;
  for (const auto& layer : make_layers(model)) sum += layer->cost();
  return sum;
}

std::vector<std::string> names(const Layers& layers) {
  std::vector<std::string> result;
  for (const auto& layer : layers) result.push_back(layer->name());
  return result;
}

std::map<std::string, Slot> slots(const ModelDescription& model) {
  std::map<std::string, Slot> result;
  for (const auto& layer : make_layers(model)) {
    for (const Slot& slot : layer->slots()) {
      EXPECT_TRUE(result.emplace(slot.key, slot).second) << slot.key << " exists twice";
    }
  }
  return result;
}

TEST(VisionModels, HaveTheParameterCountsOfTorchvision) {
  const auto count = [](const std::string& name) { return parameters(make_layers(photos(name))); };
  EXPECT_EQ(count("alexnet"), 61'100'840);
  EXPECT_EQ(count("vgg16"), 138'357'544);
  EXPECT_EQ(count("vgg16_bn"), 138'365'992);
  EXPECT_EQ(count("resnet18"), 11'689'512);
  EXPECT_EQ(count("resnet50"), 25'557'032);
  EXPECT_EQ(count("googlenet"), 13'004'888);
  ModelDescription headless = photos("googlenet");
  headless.auxiliary = false;
  EXPECT_EQ(parameters(make_layers(headless)), 6'624'904);
  EXPECT_EQ(
      parameters(make_layers({.name = record::ModelName::resnet20, .input = {3, 32, 32}, .classes = 10})),
      269'722);
}

// The numbers that torchvision publishes with its weights, in 1e9 multiply-adds; theirs count a little more
// than convolutions and linear layers.
TEST(VisionModels, CostWhatTorchvisionSaysTheyCost) {
  const auto cost = [](ModelDescription model) {
    model.auxiliary = false;
    return static_cast<double>(total_cost(model)) * 1e-9;
  };
  EXPECT_NEAR(cost(photos("alexnet")), 0.714, 0.001);
  EXPECT_NEAR(cost(photos("vgg16")), 15.470, 0.001);
  EXPECT_NEAR(cost(photos("resnet18")), 1.814, 0.001);
  EXPECT_NEAR(cost(photos("resnet50")), 4.089, 0.001);
  EXPECT_NEAR(cost(photos("googlenet")), 1.498, 0.001);
  // He et al., table 6, give 41 million for 32x32.
  EXPECT_NEAR(cost({.name = record::ModelName::resnet20, .input = {3, 32, 32}, .classes = 10}), 0.041,
              0.0005);
}

TEST(VisionModels, CountTheirAuxiliaryHeadsAsCost) {
  ModelDescription headless = photos("googlenet");
  headless.auxiliary = false;
  // A head: 1x1 convolution on 4x4, 2048 x 1024, 1024 x 1000.
  const std::int64_t shared = std::int64_t{2048} * 1024 + std::int64_t{1024} * 1000;
  EXPECT_EQ(total_cost(photos("googlenet")) - total_cost(headless), 2 * shared + 16 * 128 * (512 + 528));
}

TEST(VisionModels, AreCutBetweenTheseLayers) {
  EXPECT_THAT(names(make_layers(photos("resnet20", 32))),
              ElementsAre("conv1", "layer1.0", "layer1.1", "layer1.2", "layer2.0", "layer2.1", "layer2.2",
                          "layer3.0", "layer3.1", "layer3.2", "fc"));
  EXPECT_EQ(make_layers(photos("resnet18")).size(), 10U);
  EXPECT_EQ(make_layers(photos("resnet50")).size(), 18U);
  EXPECT_THAT(names(make_layers(photos("alexnet"))),
              ElementsAre("features.0", "features.3", "features.6", "features.8", "features.10",
                          "classifier.1", "classifier.4", "classifier.6"));
  EXPECT_THAT(
      names(make_layers(photos("vgg16"))),
      ElementsAre("features.0", "features.2", "features.5", "features.7", "features.10", "features.12",
                  "features.14", "features.17", "features.19", "features.21", "features.24", "features.26",
                  "features.28", "classifier.0", "classifier.3", "classifier.6"));
  EXPECT_EQ(names(make_layers(photos("vgg16_bn")))[12], "features.40");
  EXPECT_THAT(names(make_layers(photos("googlenet"))),
              ElementsAre("conv1.conv", "conv2.conv", "conv3.conv", "inception3a", "inception3b",
                          "inception4a", "inception4b", "inception4c", "inception4d", "inception4e",
                          "inception5a", "inception5b", "fc"));
}

TEST(VisionModels, NameTheirTensorsAsTorchvision) {
  // Number of tensors, of them buffers: what the state_dict of torchvision 0.29 holds.
  const std::map<std::string, std::pair<std::size_t, std::size_t>> counts = {
      {"resnet20", {116, 57}}, {"resnet18", {122, 60}}, {"resnet50", {320, 159}},  {"alexnet", {16, 0}},
      {"vgg16", {32, 0}},      {"vgg16_bn", {97, 39}},  {"googlenet", {364, 177}},
  };
  for (const auto& [name, expected] : counts) {
    const auto all = slots(photos(name));
    EXPECT_EQ(all.size(), expected.first) << name;
    EXPECT_EQ(std::ranges::count_if(all, [](const auto& slot) { return !slot.second.trained; }),
              static_cast<std::ptrdiff_t>(expected.second))
        << name;
  }
}

TEST(VisionModels, ShapeTheirTensorsAsTorchvision) {
  const std::map<std::string, std::map<std::string, Shape>> expected = {
      {"resnet18",
       {{"conv1.weight", {64, 3, 7, 7}},
        {"bn1.num_batches_tracked", {}},
        {"layer1.0.conv1.weight", {64, 64, 3, 3}},
        {"layer2.0.downsample.0.weight", {128, 64, 1, 1}},
        {"layer2.0.downsample.1.running_var", {128}},
        {"layer4.1.bn2.bias", {512}},
        {"fc.weight", {1000, 512}}}},
      {"resnet50",
       {{"layer1.0.conv1.weight", {64, 64, 1, 1}},
        {"layer1.0.conv3.weight", {256, 64, 1, 1}},
        {"layer1.0.downsample.0.weight", {256, 64, 1, 1}},
        {"layer4.2.conv2.weight", {512, 512, 3, 3}},
        {"fc.weight", {1000, 2048}}}},
      {"alexnet",
       {{"features.0.weight", {64, 3, 11, 11}},
        {"features.3.weight", {192, 64, 5, 5}},
        {"features.10.bias", {256}},
        {"classifier.1.weight", {4096, 9216}},
        {"classifier.6.weight", {1000, 4096}}}},
      {"vgg16_bn",
       {{"features.0.bias", {64}},
        {"features.1.running_mean", {64}},
        {"features.40.weight", {512, 512, 3, 3}},
        {"classifier.0.weight", {4096, 25088}}}},
      {"googlenet",
       {{"conv1.conv.weight", {64, 3, 7, 7}},
        {"inception3a.branch3.1.conv.weight", {32, 16, 3, 3}},
        {"inception4d.branch2.0.bn.weight", {144}},
        {"inception5b.branch4.1.conv.weight", {128, 832, 1, 1}},
        {"aux2.conv.conv.weight", {128, 528, 1, 1}},
        {"aux1.fc1.weight", {1024, 2048}},
        {"fc.bias", {1000}}}}};
  for (const auto& [name, tensors] : expected) {
    const auto all = slots(photos(name));
    for (const auto& [key, shape] : tensors) {
      ASSERT_TRUE(all.contains(key)) << name << " " << key;
      EXPECT_EQ(all.at(key).shape, shape) << name << " " << key;
    }
  }
  EXPECT_EQ(slots(photos("resnet20", 32)).at("layer3.0.conv1.weight").shape, (Shape{64, 32, 3, 3}));
}

TEST(VisionModels, TakeAsManyChannelsAsTheImagesHave) {
  for (const std::string name : {"resnet20", "resnet18", "resnet50", "alexnet", "vgg16", "googlenet"}) {
    const Layers layers =
        make_layers({.name = parse_named<record::ModelName>(name), .input = {1, 64, 64}, .classes = 10});
    EXPECT_EQ(layers.front()->slots()[0].shape[1], 1) << name;
  }
}

TEST(VisionModels, WithTheCifarStemKeepTheImageSizeUpToTheSecondStage) {
  for (const std::string name : {"resnet18", "resnet50"}) {
    const Layers layers = make_layers({.name = parse_named<record::ModelName>(name),
                                       .input = {3, 32, 32},
                                       .classes = 10,
                                       .cifar_stem = true});
    EXPECT_EQ(layers[0]->slots()[0].shape, (Shape{64, 3, 3, 3}));
    EXPECT_EQ(layers[0]->output_shape(), (Shape{64, 32, 32}));
    EXPECT_EQ(layers[layers.size() - 2]->output_shape()[1], 4);
  }
}

TEST(VisionModels, SmallOnesHaveAnEighthOfAllWidths) {
  const auto shape = [](const std::string& name, const std::string& key) {
    ModelDescription model = photos(name);
    model.small = true;
    return slots(model).at(key).shape;
  };
  EXPECT_EQ(shape("resnet50", "layer4.2.conv3.weight"), (Shape{256, 64, 1, 1}));
  EXPECT_EQ(shape("alexnet", "classifier.1.weight"), (Shape{512, 32 * 36}));
  EXPECT_EQ(shape("vgg16", "classifier.6.weight"), (Shape{1000, 512}));
  EXPECT_EQ(shape("googlenet", "inception3a.branch3.0.conv.weight"), (Shape{2, 24, 1, 1}));
  EXPECT_EQ(shape("googlenet", "aux1.fc1.weight"), (Shape{128, 256}));
  EXPECT_EQ(shape("resnet20", "layer3.2.conv2.weight"), (Shape{16, 16, 3, 3}));
}

TEST(VisionModels, RefuseImagesBelowTheLeastSize) {
  const std::map<std::string, std::int64_t> least = {{"alexnet", 63},   {"vgg16", 32},   {"vgg16_bn", 32},
                                                     {"googlenet", 15}, {"resnet18", 1}, {"resnet50", 1},
                                                     {"resnet20", 1}};
  for (const auto& [name, side] : least) {
    const auto refusal = [&, &name = name](std::int64_t height, std::int64_t width) {
      return tests::error_of([&] {
        (void)make_layers(
            {.name = parse_named<record::ModelName>(name), .input = {3, height, width}, .classes = 10});
      });
    };
    EXPECT_EQ(refusal(side, side), "") << name;
    const std::string text = "model " + name + " needs images of at least " + std::to_string(side) + "x" +
                             std::to_string(side) + " pixels, these have ";
    EXPECT_THAT(refusal(side - 1, side), HasSubstr(text + std::to_string(side - 1) + "x"));
    EXPECT_THAT(refusal(side, side - 1), HasSubstr(text)) << name;
  }
}

TEST(VisionModels, AreCutWithoutAStageThatCostsOverHalfAsMuchAgainAsItsShare) {
  for (const std::string name : {"resnet18", "resnet50", "vgg16", "googlenet"}) {
    const std::vector<double> costs = estimated_costs(make_layers(photos(name)));
    const double total = std::accumulate(costs.begin(), costs.end(), 0.0);
    for (const int stages : {2, 4}) {
      for (const auto& [first, last] : cut_layers(costs, stages)) {
        const double cost = std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(first),
                                            costs.begin() + static_cast<std::ptrdiff_t>(last), 0.0);
        EXPECT_LE(cost, 1.5 * total / stages) << name << " in " << stages;
      }
    }
  }
}

}  // namespace
}  // namespace bitrift::nn::vision_models_test
