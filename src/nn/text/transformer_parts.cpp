#include "nn/text/transformer_parts.h"

namespace bitrift::nn {

LayerNorm::LayerNorm(std::vector<Slot>& slots, const std::string& key, std::int64_t width, double epsilon)
    : first_(slots.size()), width_(width), epsilon_(epsilon) {
  slots.push_back({.key = key + ".weight", .shape = {width}, .init = Init::constant(1)});
  slots.push_back({.key = key + ".bias", .shape = {width}});
}

torch::Tensor LayerNorm::operator()(const std::vector<Slot>& slots, const torch::Tensor& x) const {
  return torch::layer_norm(x, {width_}, slots[first_].value, slots[first_ + 1].value, epsilon_);
}

RmsNorm::RmsNorm(std::vector<Slot>& slots, const std::string& key, std::int64_t width, double epsilon)
    : slot_(slots.size()), width_(width), epsilon_(epsilon) {
  slots.push_back({.key = key + ".weight", .shape = {width}, .init = Init::constant(1)});
}

torch::Tensor RmsNorm::operator()(const std::vector<Slot>& slots, const torch::Tensor& x) const {
  return torch::rms_norm(x, {width_}, slots[slot_].value, epsilon_);
}

Embedding::Embedding(std::vector<Slot>& slots, const std::string& key, std::int64_t count, std::int64_t width,
                     const Init& init)
    : slot_(slots.size()) {
  slots.push_back({.key = key + ".weight", .shape = {count, width}, .init = init});
}

torch::Tensor Embedding::operator()(const std::vector<Slot>& slots, const torch::Tensor& ids) const {
  return torch::embedding(slots[slot_].value, ids);
}

torch::Tensor split_heads(const torch::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

Rotation rotary_positions(std::int64_t context, std::int64_t size, double base, const torch::Tensor& like) {
  const torch::Tensor exponents = torch::arange(0, size, 2, torch::kInt64).to(torch::kFloat32) / size;
  const torch::Tensor frequencies = 1 / torch::pow(base, exponents);
  const torch::Tensor angles = torch::outer(torch::arange(context).to(torch::kFloat32), frequencies);
  const torch::Tensor both = torch::cat({angles, angles}, 1);
  return {both.cos().to(like.options()), both.sin().to(like.options())};
}

torch::Tensor rotate(const torch::Tensor& x, const Rotation& turn) {
  const std::int64_t half = x.size(3) / 2;
  const torch::Tensor first = x.slice(3, 0, half);
  const torch::Tensor second = x.slice(3, half);
  const torch::Tensor kept = x * turn.cosine;
  const torch::Tensor swapped = torch::cat({-second, first}, 3);
  return kept + swapped * turn.sine;
}

torch::Tensor repeat_heads(const torch::Tensor& x, std::int64_t times) {
  if (times == 1) return x;
  const std::int64_t batch = x.size(0), heads = x.size(1), context = x.size(2), size = x.size(3);
  return x.unsqueeze(2)
      .expand({batch, heads, times, context, size})
      .reshape({batch, heads * times, context, size});
}

torch::Tensor attend(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                     bool causal) {
  return at::scaled_dot_product_attention(query, key, value, {}, 0.0, causal)
      .transpose(1, 2)
      .contiguous()
      .flatten(2);
}

}  // namespace bitrift::nn
