// The parts of which the transformers are built, in addition to parts.h. Inside nn/ only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/layer/layer.h"

namespace bitrift::nn {

/// torch.nn.LayerNorm over the last dimension. KEY.weight, KEY.bias [width]; starts at 1 and 0.
class LayerNorm {
 public:
  LayerNorm() = default;
  LayerNorm(std::vector<Slot>& slots, const std::string& key, std::int64_t width, double epsilon);
  /// x: [..., width].
  [[nodiscard]] torch::Tensor operator()(const std::vector<Slot>& slots, const torch::Tensor& x) const;

 private:
  std::size_t first_ = 0;
  std::int64_t width_ = 0;
  double epsilon_ = 1e-5;
};

/// torch.nn.RMSNorm over the last dimension (Zhang and Sennrich, NeurIPS 2019). KEY.weight [width]; starts
/// at 1.
class RmsNorm {
 public:
  RmsNorm() = default;
  RmsNorm(std::vector<Slot>& slots, const std::string& key, std::int64_t width, double epsilon);
  /// x: [..., width].
  [[nodiscard]] torch::Tensor operator()(const std::vector<Slot>& slots, const torch::Tensor& x) const;

 private:
  std::size_t slot_ = 0;
  std::int64_t width_ = 0;
  double epsilon_ = 1e-5;
};

/// torch.nn.Embedding without a padding index. KEY.weight [count, width].
class Embedding {
 public:
  Embedding() = default;
  Embedding(std::vector<Slot>& slots, const std::string& key, std::int64_t count, std::int64_t width,
            const Init& init);
  /// ids: int64 [...], each below count; returns [..., width].
  [[nodiscard]] torch::Tensor operator()(const std::vector<Slot>& slots, const torch::Tensor& ids) const;

 private:
  std::size_t slot_ = 0;
};

/// x: [batch, context, width] as [batch, heads, context, width / heads].
[[nodiscard]] torch::Tensor split_heads(const torch::Tensor& x, std::int64_t heads);

/// Rotary positions (Su et al. 2021, "RoFormer", section 3.2.2): the cosine and the sine of position times
/// base^(-2 (j mod size/2) / size) for each position and number j of a head; [context, size].
struct Rotation {
  torch::Tensor cosine, sine;
};
/// Computed in float32 on the CPU, then given the type and the place of `like`.
[[nodiscard]] Rotation rotary_positions(std::int64_t context, std::int64_t size, double base,
                                        const torch::Tensor& like);
/// x: [batch, heads, context, size]. Number j turns together with number j + size/2, as in Hugging Face's
/// rotate_half(). The tables of `turn` have as many rows as the context.
[[nodiscard]] torch::Tensor rotate(const torch::Tensor& x, const Rotation& turn);

/// x: [batch, heads, context, size] with each head `times` times in a row: [batch, heads * times, context,
/// size].
[[nodiscard]] torch::Tensor repeat_heads(const torch::Tensor& x, std::int64_t times);

/// Scaled dot-product attention (Vaswani et al., NeurIPS 2017, section 3.2.1) of heads in the form of
/// split_heads(), without dropout on its weights; causal: a position sees itself and earlier positions.
/// Returns [batch, context, width].
[[nodiscard]] torch::Tensor attend(const torch::Tensor& query, const torch::Tensor& key,
                                   const torch::Tensor& value, bool causal);

}  // namespace bitrift::nn
