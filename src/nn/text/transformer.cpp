// gpt and bert. The operators are called one statement at a time, in the order of the Python modules:
// autograd adds the gradients of a branching tensor in the reverse order of its uses, and the sum's bits
// depend on it.
#include "nn/text/transformer.h"

#include <cmath>
#include <utility>

#include "nn/layer/parts.h"
#include "nn/text/transformer_parts.h"

namespace bitrift::nn {
namespace {

// Standard deviation of initial weights: Radford et al. 2019 (GPT-2), Devlin et al. 2019 (BERT).
constexpr double weight_deviation = 0.02;
constexpr double gpt_epsilon = 1e-5;
constexpr double bert_epsilon = 1e-12;
constexpr double gpt_dropout = 0;
constexpr double bert_dropout = 0.1;

// The context that every layer of a transformer needs.
struct Sizes {
  std::int64_t context, width, vocabulary, heads;
  int layers;
  double dropout;
};

Sizes sizes_of(const ModelDescription& model, double published_dropout) {
  return {model.input[0], model.width,  model.classes,
          model.heads,    model.layers, model.dropout.value_or(published_dropout)};
}

// Four projections and a feed-forward part of four widths, and the two products of attention.
std::int64_t block_cost(const Sizes& s) {
  return 12 * s.context * s.width * s.width + 2 * s.context * s.context * s.width;
}

torch::Tensor positions(const torch::Tensor& ids) { return torch::arange(ids.size(1), ids.options()); }

Linear normal_linear(std::vector<Slot>& slots, const std::string& key, std::int64_t inputs,
                     std::int64_t outputs, double deviation = weight_deviation) {
  return {slots, key, inputs, outputs, Init::normal(deviation), Init::constant(0)};
}

// A layer on hidden states [batch, context, width].
class Hidden : public Layer {
 protected:
  Hidden(const std::string& name, const Sizes& sizes) : sizes_(sizes) {
    name_ = name;
    input_shape_ = output_shape_ = {sizes.context, sizes.width};
  }
  Sizes sizes_;
};

class GptEmbeddings : public Hidden {
 public:
  explicit GptEmbeddings(const Sizes& s)
      : Hidden("transformer.embeddings", s),
        tokens_(slots_, "transformer.wte", s.vocabulary, s.width, Init::normal(weight_deviation)),
        places_(slots_, "transformer.wpe", s.context, s.width, Init::normal(weight_deviation)) {
    input_shape_ = {s.context};
    cost_ = s.context * s.width;
  }

  torch::Tensor forward(const torch::Tensor& ids, const Pass& pass) override {
    const torch::Tensor token = tokens_(slots_, ids);
    const torch::Tensor place = places_(slots_, positions(ids));
    return dropout(token + place, sizes_.dropout, "transformer.drop", pass);
  }

 private:
  Embedding tokens_, places_;
};

class GptBlock : public Hidden {
 public:
  GptBlock(const std::string& key, const Sizes& s) : Hidden(key, s) {
    // A block has two residual branches: this keeps the variance of their sum (GPT-2, section 2.3).
    const double residual_deviation = weight_deviation / std::sqrt(2.0 * s.layers);
    norm1_ = LayerNorm(slots_, key + ".ln_1", s.width, gpt_epsilon);
    attention_ = normal_linear(slots_, key + ".attn.c_attn", s.width, 3 * s.width);
    projection_ = normal_linear(slots_, key + ".attn.c_proj", s.width, s.width, residual_deviation);
    norm2_ = LayerNorm(slots_, key + ".ln_2", s.width, gpt_epsilon);
    widen_ = normal_linear(slots_, key + ".mlp.c_fc", s.width, 4 * s.width);
    narrow_ = normal_linear(slots_, key + ".mlp.c_proj", 4 * s.width, s.width, residual_deviation);
    cost_ = block_cost(s);
  }

  torch::Tensor forward(const torch::Tensor& x, const Pass& pass) override {
    const std::vector<torch::Tensor> parts = attention_(slots_, norm1_(slots_, x)).split(sizes_.width, 2);
    const torch::Tensor key = split_heads(parts[1], sizes_.heads);
    const torch::Tensor query = split_heads(parts[0], sizes_.heads);
    const torch::Tensor value = split_heads(parts[2], sizes_.heads);
    const torch::Tensor attended = projection_(slots_, attend(query, key, value, true));
    const torch::Tensor y = x + dropout(attended, sizes_.dropout, name_ + ".attn.resid_dropout", pass);
    const torch::Tensor inner = torch::gelu(widen_(slots_, norm2_(slots_, y)));
    return y + dropout(narrow_(slots_, inner), sizes_.dropout, name_ + ".mlp.dropout", pass);
  }

 private:
  LayerNorm norm1_, norm2_;
  Linear attention_, projection_, widen_, narrow_;
};

class GptHead : public Hidden {
 public:
  explicit GptHead(const Sizes& s)
      : Hidden("lm_head", s),
        norm_(slots_, "transformer.ln_f", s.width, gpt_epsilon),
        logits_(slots_, "lm_head", s.width, s.vocabulary, Init::normal(weight_deviation), std::nullopt) {
    output_shape_ = {s.context, s.vocabulary};
    cost_ = s.context * s.width * s.vocabulary;
  }

  torch::Tensor forward(const torch::Tensor& x, const Pass&) override {
    return logits_(slots_, norm_(slots_, x));
  }

 private:
  LayerNorm norm_;
  Linear logits_;
};

class BertEmbeddings : public Hidden {
 public:
  explicit BertEmbeddings(const Sizes& s) : Hidden("bert.embeddings", s) {
    constexpr std::int64_t segments = 2;
    const Init init = Init::normal(weight_deviation);
    words_ = Embedding(slots_, name_ + ".word_embeddings", s.vocabulary, s.width, init);
    places_ = Embedding(slots_, name_ + ".position_embeddings", s.context, s.width, init);
    segments_ = Embedding(slots_, name_ + ".token_type_embeddings", segments, s.width, init);
    norm_ = LayerNorm(slots_, name_ + ".LayerNorm", s.width, bert_epsilon);
    input_shape_ = {s.context};
    cost_ = 2 * s.context * s.width;
  }

  torch::Tensor forward(const torch::Tensor& ids, const Pass& pass) override {
    const torch::Tensor word = words_(slots_, ids);
    const torch::Tensor segment = segments_(slots_, torch::zeros_like(ids));
    const torch::Tensor both = word + segment;
    const torch::Tensor place = places_(slots_, positions(ids));
    return dropout(norm_(slots_, both + place), sizes_.dropout, name_ + ".dropout", pass);
  }

 private:
  Embedding words_, places_, segments_;
  LayerNorm norm_;
};

class BertBlock : public Hidden {
 public:
  BertBlock(const std::string& key, const Sizes& s) : Hidden(key, s) {
    query_ = normal_linear(slots_, key + ".attention.self.query", s.width, s.width);
    key_ = normal_linear(slots_, key + ".attention.self.key", s.width, s.width);
    value_ = normal_linear(slots_, key + ".attention.self.value", s.width, s.width);
    projection_ = normal_linear(slots_, key + ".attention.output.dense", s.width, s.width);
    norm1_ = LayerNorm(slots_, key + ".attention.output.LayerNorm", s.width, bert_epsilon);
    widen_ = normal_linear(slots_, key + ".intermediate.dense", s.width, 4 * s.width);
    narrow_ = normal_linear(slots_, key + ".output.dense", 4 * s.width, s.width);
    norm2_ = LayerNorm(slots_, key + ".output.LayerNorm", s.width, bert_epsilon);
    cost_ = block_cost(s);
  }

  torch::Tensor forward(const torch::Tensor& x, const Pass& pass) override {
    const torch::Tensor query = split_heads(query_(slots_, x), sizes_.heads);
    const torch::Tensor key = split_heads(key_(slots_, x), sizes_.heads);
    const torch::Tensor value = split_heads(value_(slots_, x), sizes_.heads);
    const torch::Tensor attended = projection_(slots_, attend(query, key, value, false));
    const torch::Tensor y =
        norm1_(slots_, dropout(attended, sizes_.dropout, name_ + ".attention.output.dropout", pass) + x);
    const torch::Tensor inner = torch::gelu(widen_(slots_, y));
    return norm2_(slots_,
                  dropout(narrow_(slots_, inner), sizes_.dropout, name_ + ".output.dropout", pass) + y);
  }

 private:
  Linear query_, key_, value_, projection_, widen_, narrow_;
  LayerNorm norm1_, norm2_;
};

class BertHead : public Hidden {
 public:
  explicit BertHead(const Sizes& s) : Hidden("cls.predictions", s) {
    transform_ = normal_linear(slots_, name_ + ".transform.dense", s.width, s.width);
    norm_ = LayerNorm(slots_, name_ + ".transform.LayerNorm", s.width, bert_epsilon);
    decoder_ = normal_linear(slots_, name_ + ".decoder", s.width, s.vocabulary);
    output_shape_ = {s.context, s.vocabulary};
    cost_ = s.context * s.width * (s.width + s.vocabulary);
  }

  torch::Tensor forward(const torch::Tensor& x, const Pass&) override {
    return decoder_(slots_, norm_(slots_, torch::gelu(transform_(slots_, x))));
  }

 private:
  Linear transform_, decoder_;
  LayerNorm norm_;
};

}  // namespace

Layers make_gpt(const ModelDescription& model) {
  const Sizes sizes = sizes_of(model, gpt_dropout);
  Layers layers;
  layers.push_back(std::make_unique<GptEmbeddings>(sizes));
  for (int i = 0; i < sizes.layers; ++i) {
    layers.push_back(std::make_unique<GptBlock>("transformer.h." + std::to_string(i), sizes));
  }
  layers.push_back(std::make_unique<GptHead>(sizes));
  return layers;
}

Layers make_bert(const ModelDescription& model) {
  const Sizes sizes = sizes_of(model, bert_dropout);
  Layers layers;
  layers.push_back(std::make_unique<BertEmbeddings>(sizes));
  for (int i = 0; i < sizes.layers; ++i) {
    layers.push_back(std::make_unique<BertBlock>("bert.encoder.layer." + std::to_string(i), sizes));
  }
  layers.push_back(std::make_unique<BertHead>(sizes));
  return layers;
}

}  // namespace bitrift::nn
