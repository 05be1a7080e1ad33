// The convolutional models against numbers that torchvision 0.29 gave for the same weights and images in
// double precision (resnet20: its BasicBlock with padded shortcuts).
#include <cmath>

#include <gmock/gmock.h>

#include "nn/layer/model.h"
#include "nn/make_layers.h"

namespace bitrift::nn::vision_witness_test {
namespace {

struct Witness {
  std::string name;
  std::int64_t side, channels;
  bool cifar_stem;
  double loss;        // of one training pass, auxiliary heads included
  double gradient;    // norm of the gradients of all parameters
  double evaluation;  // norm of the logits in evaluation after that pass
};

TEST(VisionWitness, LossGradientAndEvaluationAreThoseOfTorchvision) {
  constexpr std::int64_t rows = 4;
  const std::vector<Witness> witnesses = {
      {"resnet20", 9, 3, false, 2.8380554793953, 5.53399000608398, 6.05159468714347},
      {"resnet18", 33, 1, false, 2.57324301880889, 19.2953344101844, 1.79456250052868},
      {"resnet18", 8, 3, true, 2.5494571540184, 217.555357453091, 1.30768580025669},
      {"resnet50", 33, 3, false, 1.81401740741792, 677.965732610376, 2.15380430520486},
      {"resnet50", 8, 1, true, 2.24407205932562, 5095.11446372557, 0.592932508314024},
      {"alexnet", 63, 1, false, 2.29488731769064, 0.475045174265939, 0.217202555666099},
      {"vgg16", 32, 3, false, 2.30216705179403, 0.408149054962216, 0.0118509955102433},
      {"vgg16_bn", 32, 1, false, 2.30070341002991, 3.63306858210662, 0.00493425873915799},
      {"googlenet", 15, 1, false, 3.66789709791323, 51.8521929648127, 0.242397136723672},
      {"googlenet", 33, 3, false, 3.67160637168627, 254.27614276033, 0.242444882332682}};
  for (const Witness& row : witnesses) {
    const ModelDescription model{.name = parse_named<record::ModelName>(row.name),
                                 .input = {row.channels, row.side, row.side},
                                 .classes = 10,
                                 .small = true,
                                 .cifar_stem = row.cifar_stem,
                                 .dropout = 0};
    auto layers = make_layers(model);
    const std::size_t count = layers.size();
    Stage stage(std::move(layers), 0, count, 7, {.dtype = torch::kFloat64});
    const torch::Tensor x =
        torch::sin(torch::arange(rows * row.channels * row.side * row.side, torch::kFloat64) * 0.7)
            .reshape({rows, row.channels, row.side, row.side});
    const torch::Tensor labels = torch::arange(rows);
    const std::vector<std::int64_t> samples = {0, 1, 2, 3};
    const StageOutput output = stage.forward(x, {.training = true, .samples = samples});
    torch::Tensor loss = torch::cross_entropy_loss(output.y, labels);
    for (const torch::Tensor& logits : output.auxiliary) {
      loss = loss + auxiliary_weight * torch::cross_entropy_loss(logits, labels);
    }
    loss.backward();
    double squares = 0;
    for (const Slot& slot : stage.slots()) {
      if (slot.trained) squares += slot.value.grad().square().sum().item<double>();
    }
    // Wide enough for the kernels of other processors, which the bottlenecks' normalisation amplifies.
    constexpr double tolerance = 1e-8;
    EXPECT_NEAR(loss.item<double>() / row.loss, 1, tolerance) << row.name;
    EXPECT_NEAR(std::sqrt(squares) / row.gradient, 1, tolerance) << row.name;
    EXPECT_NEAR(stage.forward(x, {}).y.norm().item<double>() / row.evaluation, 1, tolerance) << row.name;
  }
}

}  // namespace
}  // namespace bitrift::nn::vision_witness_test
