// He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, CVPR 2016; keys as in torchvision.
#include "nn/vision/resnet.h"

#include <limits>

#include "nn/vision/vision_parts.h"

namespace bitrift::nn {
namespace {

struct Architecture {
  std::vector<std::int64_t> widths, blocks;  // number of blocks in each stage of equal image size
  bool bottleneck = false;                   // 1x1, 3x3, 1x1 (section 4.1); else two 3x3
  bool padded_shortcut = false;              // option A of section 3.3; else B, a projection
};

constexpr std::int64_t expansion = 4;  // of a bottleneck

// The residual branch of two or three convolutions plus the shortcut, then ReLU.
class ResidualBlock : public Layer {
 public:
  ResidualBlock(const std::string& key, const Shape& input, std::int64_t width, std::int64_t stride,
                const Architecture& architecture)
      : stride_(stride) {
    const Window first{.kernel = 3, .stride = stride, .padding = 1};
    const Window same{.kernel = 3, .stride = 1, .padding = 1};
    name_ = key;
    input_shape_ = output_shape_ = input;
    if (architecture.bottleneck) {
      append(width, {});
      append(width, first);
      append(width * expansion, {});
    } else {
      append(width, first);
      append(width, same);
    }
    if (stride == 1 && output_shape_[0] == input[0]) return;
    if (architecture.padded_shortcut) {
      padding_ = (output_shape_[0] - input[0]) / 2;
      return;
    }
    projection_.emplace(slots_, Conv::Options{.key = key + ".downsample.0", .norm = key + ".downsample.1"},
                        input, output_shape_[0], Window{.kernel = 1, .stride = stride});
    cost_ += projection_->cost();
  }

  torch::Tensor forward(const torch::Tensor& x, const Pass& pass) override {
    torch::Tensor y = convs_[0](slots_, x, pass.training);
    for (std::size_t i = 1; i < convs_.size(); ++i) y = convs_[i](slots_, y.relu_(), pass.training);
    return y.add_(shortcut(x, pass)).relu_();
  }

 private:
  void append(std::int64_t outputs, const Window& window) {
    const std::string number = std::to_string(convs_.size() + 1);
    convs_.emplace_back(slots_,
                        Conv::Options{.key = name_ + ".conv" + number, .norm = name_ + ".bn" + number},
                        output_shape_, outputs, window);
    output_shape_ = convs_.back().output_shape();
    cost_ += convs_.back().cost();
  }

  torch::Tensor shortcut(const torch::Tensor& x, const Pass& pass) {
    if (projection_) return (*projection_)(slots_, x, pass.training);
    if (stride_ == 1 && padding_ == 0) return x;
    constexpr std::int64_t end = std::numeric_limits<std::int64_t>::max();
    return torch::constant_pad_nd(x.slice(2, 0, end, stride_).slice(3, 0, end, stride_),
                                  {0, 0, 0, 0, padding_, padding_});
  }

  std::vector<Conv> convs_;
  std::optional<Conv> projection_;
  std::int64_t stride_, padding_ = 0;
};

Layers make(const ModelDescription& model, const Architecture& architecture, const Window& stem,
            const std::optional<Window>& pool) {
  Layers layers;
  layers.push_back(std::make_unique<ConvUnit>(Conv::Options{.key = "conv1", .norm = "bn1"}, model.input,
                                              architecture.widths[0], stem, pool));
  for (std::size_t stage = 0; stage < architecture.widths.size(); ++stage) {
    for (std::int64_t block = 0; block < architecture.blocks[stage]; ++block) {
      layers.push_back(std::make_unique<ResidualBlock>(
          "layer" + std::to_string(stage + 1) + "." + std::to_string(block), layers.back()->output_shape(),
          architecture.widths[stage], stage > 0 && block == 0 ? 2 : 1, architecture));
    }
  }
  layers.push_back(std::make_unique<LinearUnit>("fc", layers.back()->output_shape(), model.classes,
                                                LinearUnit::Options{.pool = 1}));
  return layers;
}

constexpr Window cifar_stem{.kernel = 3, .stride = 1, .padding = 1};

}  // namespace

Layers make_resnet20(const ModelDescription& model) {
  Architecture architecture{.widths = {16, 32, 64}, .blocks = {3, 3, 3}, .padded_shortcut = true};
  // An eighth of that would be two channels.
  if (model.small) architecture.widths = {4, 8, 16};
  return make(model, architecture, cifar_stem, std::nullopt);
}

Layers make_resnet(const ModelDescription& model, bool fifty) {
  Architecture architecture{.widths = {64, 128, 256, 512}, .blocks = {2, 2, 2, 2}};
  if (fifty) {
    architecture.blocks = {3, 4, 6, 3};
    architecture.bottleneck = true;
  }
  for (std::int64_t& width : architecture.widths) width = vision_width(model, width);
  if (model.cifar_stem) return make(model, architecture, cifar_stem, std::nullopt);
  return make(model, architecture, {.kernel = 7, .stride = 2, .padding = 3},
              Window{.kernel = 3, .stride = 2, .padding = 1});
}

}  // namespace bitrift::nn
