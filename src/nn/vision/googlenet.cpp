// Szegedy et al.: Going Deeper with Convolutions, CVPR 2015, as in torchvision: with batch normalisation, and
// with 3x3 convolutions where the paper has 5x5.
#include "nn/vision/googlenet.h"

#include "nn/vision/vision_parts.h"

namespace bitrift::nn {
namespace {

// torchvision draws from a normal distribution truncated at 200 deviations, which is a normal one in
// practice.
Init weight_init() { return Init::normal(0.01); }

Conv::Options conv_options(const std::string& key) {
  return {.key = key + ".conv", .norm = key + ".bn", .weight = weight_init(), .epsilon = 0.001};
}

// A row of the paper's table 1: the outputs of the 1x1, the reduction before the 3x3 and its outputs, the
// same of the 5x5, and the projection after the pooling.
struct Widths {
  std::int64_t one, reduce3, three, reduce5, five, project;
};

// Convolutional features pooled to 4x4 and classified (section 5 of the paper).
class AuxiliaryHead {
 public:
  AuxiliaryHead(std::vector<Slot>& slots, const std::string& key, std::int64_t inputs,
                const ModelDescription& model)
      : name_(key + ".dropout"), probability_(model.dropout.value_or(0.7)) {
    const std::int64_t channels = vision_width(model, 128), hidden = vision_width(model, 1024);
    conv_ = Conv(slots, conv_options(key + ".conv"), {inputs, side, side}, channels, {});
    const std::int64_t features = product(conv_.output_shape());
    hidden_ = Linear(slots, key + ".fc1", features, hidden, weight_init(), Init::fan_in(features));
    logits_ = Linear(slots, key + ".fc2", hidden, model.classes, weight_init(), Init::fan_in(hidden));
    cost_ = conv_.cost() + hidden * (features + model.classes);
  }

  [[nodiscard]] torch::Tensor operator()(std::vector<Slot>& slots, const torch::Tensor& y,
                                         const Pass& pass) const {
    torch::Tensor x = conv_(slots, adaptive_pool(y, side), pass.training).relu_();
    x = hidden_(slots, x.flatten(1)).relu_();
    return logits_(slots, dropout(x, probability_, name_, pass));
  }
  [[nodiscard]] std::int64_t cost() const noexcept { return cost_; }

 private:
  static constexpr std::int64_t side = 4;
  std::string name_;
  double probability_;
  Conv conv_;
  Linear hidden_, logits_;
  std::int64_t cost_ = 0;
};

// The pooling before it, if there is one; then four branches, concatenated along the channels.
class Inception : public Layer {
 public:
  Inception(const std::string& key, const Shape& input, const std::optional<Window>& pool,
            const Widths& widths, const ModelDescription& model, const std::string& head)
      : pool_(pool) {
    name_ = key;
    input_shape_ = input;
    const Shape image = pool ? slide(input, input[0], *pool) : input;
    const auto add = [&](const std::string& name, const Shape& from, std::int64_t outputs,
                         std::int64_t kernel) {
      Conv conv(slots_, conv_options(key + name), from, vision_width(model, outputs),
                {.kernel = kernel, .stride = 1, .padding = kernel / 2});
      cost_ += conv.cost();
      return conv;
    };
    one_ = add(".branch1", image, widths.one, 1);
    reduce3_ = add(".branch2.0", image, widths.reduce3, 1);
    three_ = add(".branch2.1", reduce3_.output_shape(), widths.three, 3);
    reduce5_ = add(".branch3.0", image, widths.reduce5, 1);
    five_ = add(".branch3.1", reduce5_.output_shape(), widths.five, 3);
    project_ = add(".branch4.1", slide(image, image[0], around), widths.project, 1);
    output_shape_ = image;
    output_shape_[0] = one_.output_shape()[0] + three_.output_shape()[0] + five_.output_shape()[0] +
                       project_.output_shape()[0];
    if (head.empty()) return;
    head_.emplace(slots_, head, output_shape_[0], model);
    cost_ += head_->cost();
  }

  torch::Tensor forward(const torch::Tensor& input, const Pass& pass) override {
    const torch::Tensor x = pool_ ? max_pool(input, *pool_) : input;
    const auto run = [&](const Conv& conv, const torch::Tensor& from) {
      return conv(slots_, from, pass.training).relu_();
    };
    // One after another: the gradients of x are added in the reverse of this order.
    const torch::Tensor one = run(one_, x);
    const torch::Tensor three = run(three_, run(reduce3_, x));
    const torch::Tensor five = run(five_, run(reduce5_, x));
    const torch::Tensor projected = run(project_, max_pool(x, around));
    return torch::cat({one, three, five, projected}, 1);
  }

  [[nodiscard]] bool has_auxiliary() const override { return head_.has_value(); }
  torch::Tensor auxiliary(const torch::Tensor& y, const Pass& pass) override {
    return (*head_)(slots_, y, pass);
  }

 private:
  static constexpr Window around{.kernel = 3, .stride = 1, .padding = 1, .ceil = true};
  std::optional<Window> pool_;
  Conv one_, reduce3_, three_, reduce5_, five_, project_;
  std::optional<AuxiliaryHead> head_;
};

}  // namespace

Layers make_googlenet(const ModelDescription& model) {
  const Window pool3{.kernel = 3, .stride = 2, .padding = 0, .ceil = true};
  const Window pool2{.kernel = 2, .stride = 2, .padding = 0, .ceil = true};
  struct Row {
    std::string name;
    std::optional<Window> pool;
    Widths widths;
    std::string head = {};
  };
  const std::vector<Row> rows = {{"3a", {}, {64, 96, 128, 16, 32, 32}},
                                 {"3b", {}, {128, 128, 192, 32, 96, 64}},
                                 {"4a", pool3, {192, 96, 208, 16, 48, 64}, "aux1"},
                                 {"4b", {}, {160, 112, 224, 24, 64, 64}},
                                 {"4c", {}, {128, 128, 256, 24, 64, 64}},
                                 {"4d", {}, {112, 144, 288, 32, 64, 64}, "aux2"},
                                 {"4e", {}, {256, 160, 320, 32, 128, 128}},
                                 {"5a", pool2, {256, 160, 320, 32, 128, 128}},
                                 {"5b", {}, {384, 192, 384, 48, 128, 128}}};
  Layers layers;
  Shape shape = model.input;
  const auto add = [&](std::unique_ptr<Layer> layer) {
    shape = layer->output_shape();
    layers.push_back(std::move(layer));
  };
  add(std::make_unique<ConvUnit>(conv_options("conv1"), shape, vision_width(model, 64),
                                 Window{.kernel = 7, .stride = 2, .padding = 3}, pool3));
  add(std::make_unique<ConvUnit>(conv_options("conv2"), shape, vision_width(model, 64), Window{}));
  add(std::make_unique<ConvUnit>(conv_options("conv3"), shape, vision_width(model, 192),
                                 Window{.kernel = 3, .stride = 1, .padding = 1}, pool3));
  for (const Row& row : rows) {
    add(std::make_unique<Inception>("inception" + row.name, shape, row.pool, row.widths, model,
                                    model.auxiliary ? row.head : std::string()));
  }
  add(std::make_unique<LinearUnit>("fc", shape, model.classes,
                                   LinearUnit::Options{.pool = 1,
                                                       .dropout_before = "dropout",
                                                       .probability = model.dropout.value_or(0.2),
                                                       .weight = weight_init()}));
  return layers;
}

}  // namespace bitrift::nn
