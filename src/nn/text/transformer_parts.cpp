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

torch::Tensor attend(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                     bool causal) {
  return at::scaled_dot_product_attention(query, key, value, {}, 0.0, causal)
      .transpose(1, 2)
      .contiguous()
      .flatten(2);
}

}  // namespace bitrift::nn
