// One operator a statement, in the order of the Python modules, as in transformer.cpp.
#include "nn/text/llama.h"

#include <optional>
#include <utility>

#include "nn/layer/parts.h"
#include "nn/text/transformer_parts.h"

namespace bitrift::nn {
namespace {

// As in LlamaConfig: initializer_range, rms_norm_eps of Llama 2 and 3, rope_theta.
constexpr double llama_deviation = 0.02;
constexpr double llama_epsilon = 1e-5;
constexpr double rotary_base = 10000;

struct LlamaSizes {
  std::int64_t context, width, vocabulary, heads, kv_heads, feed_forward;
  [[nodiscard]] std::int64_t head() const { return width / heads; }
};

LlamaSizes llama_sizes(const ModelDescription& model) {
  return {.context = model.input[0],
          .width = model.width,
          .vocabulary = model.classes,
          .heads = model.heads,
          .kv_heads = model.kv_heads > 0 ? model.kv_heads : model.heads,
          .feed_forward = model.feed_forward > 0 ? model.feed_forward : usual_feed_forward(model.width)};
}

Linear matrix(std::vector<Slot>& slots, const std::string& key, std::int64_t inputs, std::int64_t outputs) {
  return {slots, key, inputs, outputs, Init::normal(llama_deviation), std::nullopt};
}

class LlamaEmbeddings : public Layer {
 public:
  explicit LlamaEmbeddings(const LlamaSizes& s) {
    name_ = "model.embed_tokens";
    tokens_ = Embedding(slots_, name_, s.vocabulary, s.width, Init::normal(llama_deviation));
    input_shape_ = {s.context};
    output_shape_ = {s.context, s.width};
    cost_ = s.context * s.width;
  }

  torch::Tensor forward(const torch::Tensor& ids, const Pass&) override { return tokens_(slots_, ids); }

 private:
  Embedding tokens_;
};

class LlamaBlock : public Layer {
 public:
  LlamaBlock(const std::string& key, const LlamaSizes& s) : sizes_(s) {
    name_ = key;
    input_shape_ = output_shape_ = {s.context, s.width};
    const std::string attention = key + ".self_attn.", inner = key + ".mlp.";
    const std::int64_t shared = s.kv_heads * s.head();
    norm1_ = RmsNorm(slots_, key + ".input_layernorm", s.width, llama_epsilon);
    query_ = matrix(slots_, attention + "q_proj", s.width, s.width);
    key_ = matrix(slots_, attention + "k_proj", s.width, shared);
    value_ = matrix(slots_, attention + "v_proj", s.width, shared);
    projection_ = matrix(slots_, attention + "o_proj", s.width, s.width);
    norm2_ = RmsNorm(slots_, key + ".post_attention_layernorm", s.width, llama_epsilon);
    gate_ = matrix(slots_, inner + "gate_proj", s.width, s.feed_forward);
    widen_ = matrix(slots_, inner + "up_proj", s.width, s.feed_forward);
    narrow_ = matrix(slots_, inner + "down_proj", s.feed_forward, s.width);
    cost_ = s.context * s.width * (2 * s.width + 2 * shared + 3 * s.feed_forward) +
            2 * s.context * s.context * s.width;
  }

  torch::Tensor forward(const torch::Tensor& x, const Pass&) override {
    const torch::Tensor y = x + attended(norm1_(slots_, x), rotation(x));
    const torch::Tensor normed = norm2_(slots_, y);
    const torch::Tensor gate = torch::silu(gate_(slots_, normed));
    const torch::Tensor wide = widen_(slots_, normed);
    return y + narrow_(slots_, gate * wide);
  }

 private:
  // The cosines and sines have the type of the residual stream, which autocast leaves wide.
  [[nodiscard]] Rotation rotation(const torch::Tensor& x) {
    if (!rotation_) rotation_ = rotary_positions(sizes_.context, sizes_.head(), rotary_base, x);
    return {rotation_->cosine.slice(0, 0, x.size(1)), rotation_->sine.slice(0, 0, x.size(1))};
  }

  [[nodiscard]] torch::Tensor attended(const torch::Tensor& x, const Rotation& turn) const {
    const torch::Tensor query = split_heads(query_(slots_, x), sizes_.heads);
    const torch::Tensor key = split_heads(key_(slots_, x), sizes_.kv_heads);
    const torch::Tensor value = split_heads(value_(slots_, x), sizes_.kv_heads);
    const torch::Tensor turned_query = rotate(query, turn);
    const torch::Tensor turned_key = rotate(key, turn);
    const std::int64_t sharing = sizes_.heads / sizes_.kv_heads;
    const torch::Tensor keys = repeat_heads(turned_key, sharing);
    const torch::Tensor values = repeat_heads(value, sharing);
    return projection_(slots_, attend(turned_query, keys, values, true));
  }

  LlamaSizes sizes_;
  RmsNorm norm1_, norm2_;
  Linear query_, key_, value_, projection_, gate_, widen_, narrow_;
  std::optional<Rotation> rotation_;
};

class LlamaHead : public Layer {
 public:
  // embeddings: the layer whose matrix the head uses; nullptr: it has its own.
  LlamaHead(const LlamaSizes& s, const Layer* embeddings) : embeddings_(embeddings) {
    name_ = "lm_head";
    input_shape_ = {s.context, s.width};
    output_shape_ = {s.context, s.vocabulary};
    norm_ = RmsNorm(slots_, "model.norm", s.width, llama_epsilon);
    if (embeddings == nullptr) own_ = matrix(slots_, name_, s.width, s.vocabulary);
    cost_ = s.context * s.width * s.vocabulary;
  }

  torch::Tensor forward(const torch::Tensor& x, const Pass&) override {
    const torch::Tensor normed = norm_(slots_, x);
    if (embeddings_ == nullptr) return own_(slots_, normed);
    return torch::linear(normed, embeddings_->slots().front().value);
  }

 private:
  const Layer* embeddings_;
  RmsNorm norm_;
  Linear own_;
};

}  // namespace

std::int64_t usual_feed_forward(std::int64_t width) { return (8 * width / 3 + 31) / 32 * 32; }

Layers make_llama(const ModelDescription& model) {
  const LlamaSizes sizes = llama_sizes(model);
  Layers layers;
  layers.push_back(std::make_unique<LlamaEmbeddings>(sizes));
  for (int i = 0; i < model.layers; ++i) {
    layers.push_back(std::make_unique<LlamaBlock>("model.layers." + std::to_string(i), sizes));
  }
  const Layer* tied = model.tied ? layers.front().get() : nullptr;
  layers.push_back(std::make_unique<LlamaHead>(sizes, tied));
  return layers;
}

}  // namespace bitrift::nn
