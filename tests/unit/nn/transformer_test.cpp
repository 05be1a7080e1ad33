#include <cmath>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "nn/layer/model.h"
#include "nn/make_layers.h"
#include "nn/text/llama.h"

namespace bitrift::nn::transformer_test {
namespace {

using Shape = std::vector<std::int64_t>;

ModelDescription gpt(std::int64_t context = 64) {
  return {.name = record::ModelName::gpt,
          .input = {context},
          .classes = 65,
          .layers = 4,
          .heads = 4,
          .width = 128};
}
ModelDescription tiny(const std::string& name, std::optional<double> dropout = 0) {
  return {.name = parse_named<record::ModelName>(name),
          .input = {6},
          .classes = 11,
          .dropout = dropout,
          .layers = 3,
          .heads = 2,
          .width = 8};
}

Stage whole(const ModelDescription& description, std::uint64_t seed, const Placement& placement = {}) {
  auto layers = make_layers(description);
  const std::size_t count = layers.size();
  return {std::move(layers), 0, count, seed, placement};
}

std::map<std::string, Shape> shapes(const Stage& stage) {
  std::map<std::string, Shape> result;
  for (const Slot& slot : stage.slots()) result[slot.key] = slot.shape;
  return result;
}

std::int64_t parameters(const Stage& stage) {
  std::int64_t count = 0;
  for (const Slot& slot : stage.slots()) count += slot.value.numel();
  return count;
}

// Tokens below `vocabulary` that no two rows share.
torch::Tensor tokens(std::int64_t rows, std::int64_t context, std::int64_t vocabulary) {
  return (torch::arange(rows * context, torch::kInt64) * 7 + 3).remainder(vocabulary).view({rows, context});
}

class Transformers : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Families, Transformers, testing::Values("gpt", "bert", "llama"),
                         [](const auto& family) { return family.param; });
class WithDropout : public Transformers {};
INSTANTIATE_TEST_SUITE_P(Families, WithDropout, testing::Values("gpt", "bert"),
                         [](const auto& family) { return family.param; });

TEST(Gpt, HasTheKeysAndShapesOfNanoGpt) {
  const std::map<std::string, Shape> expected = {{"transformer.wte.weight", {5, 8}},
                                                 {"transformer.wpe.weight", {6, 8}},
                                                 {"transformer.h.0.ln_1.weight", {8}},
                                                 {"transformer.h.0.ln_1.bias", {8}},
                                                 {"transformer.h.0.attn.c_attn.weight", {24, 8}},
                                                 {"transformer.h.0.attn.c_attn.bias", {24}},
                                                 {"transformer.h.0.attn.c_proj.weight", {8, 8}},
                                                 {"transformer.h.0.attn.c_proj.bias", {8}},
                                                 {"transformer.h.0.ln_2.weight", {8}},
                                                 {"transformer.h.0.ln_2.bias", {8}},
                                                 {"transformer.h.0.mlp.c_fc.weight", {32, 8}},
                                                 {"transformer.h.0.mlp.c_fc.bias", {32}},
                                                 {"transformer.h.0.mlp.c_proj.weight", {8, 32}},
                                                 {"transformer.h.0.mlp.c_proj.bias", {8}},
                                                 {"transformer.ln_f.weight", {8}},
                                                 {"transformer.ln_f.bias", {8}},
                                                 {"lm_head.weight", {5, 8}}};
  const ModelDescription one = {
      .name = record::ModelName::gpt, .input = {6}, .classes = 5, .layers = 1, .heads = 2, .width = 8};
  EXPECT_EQ(shapes(whole(one, 1)), expected);
}

TEST(Gpt, HasTheParametersOfItsFormula) {
  // wte and lm_head 65 x 128 each, wpe 64 x 128; a block 12 w^2 + 13 w; the last norm 2 w.
  EXPECT_EQ(parameters(whole(gpt(), 1)), 2 * 65 * 128 + 64 * 128 + 4 * (12 * 128 * 128 + 13 * 128) + 2 * 128);
  EXPECT_EQ(parameters(whole(gpt(), 1)), 818'176);
}

TEST(Bert, HasTheKeysOfBertForMaskedLM) {
  const Stage stage = whole(tiny("bert"), 1);
  const auto all = shapes(stage);
  EXPECT_EQ(all.size(), 5U + 3U * 16U + 6U);
  const std::map<std::string, Shape> some = {{"bert.embeddings.word_embeddings.weight", {11, 8}},
                                             {"bert.embeddings.position_embeddings.weight", {6, 8}},
                                             {"bert.embeddings.token_type_embeddings.weight", {2, 8}},
                                             {"bert.embeddings.LayerNorm.weight", {8}},
                                             {"bert.encoder.layer.2.attention.self.query.weight", {8, 8}},
                                             {"bert.encoder.layer.2.attention.self.key.bias", {8}},
                                             {"bert.encoder.layer.2.attention.self.value.weight", {8, 8}},
                                             {"bert.encoder.layer.2.attention.output.dense.weight", {8, 8}},
                                             {"bert.encoder.layer.2.attention.output.LayerNorm.bias", {8}},
                                             {"bert.encoder.layer.2.intermediate.dense.weight", {32, 8}},
                                             {"bert.encoder.layer.2.output.dense.weight", {8, 32}},
                                             {"bert.encoder.layer.2.output.LayerNorm.weight", {8}},
                                             {"cls.predictions.transform.dense.weight", {8, 8}},
                                             {"cls.predictions.transform.LayerNorm.bias", {8}},
                                             {"cls.predictions.decoder.weight", {11, 8}},
                                             {"cls.predictions.decoder.bias", {11}}};
  for (const auto& [key, shape] : some) EXPECT_EQ(all.at(key), shape) << key;
}

TEST(Bert, BaseHasItsPublishedNumberOfParameters) {
  // google-bert/bert-base-uncased without pooler has 109,514,298 with a tied decoder: untied, 30,522 x 768
  // more.
  const auto layers = make_layers({.name = record::ModelName::bert,
                                   .input = {512},
                                   .classes = 30522,
                                   .layers = 12,
                                   .heads = 12,
                                   .width = 768});
  std::int64_t count = 0;
  for (const auto& layer : layers) {
    for (const Slot& slot : layer->slots()) {
      count += std::accumulate(slot.shape.begin(), slot.shape.end(), std::int64_t{1}, std::multiplies<>());
    }
  }
  EXPECT_EQ(count, 109'514'298 + 30'522 * 768);
}

TEST(Gpt, NoPositionSeesLaterTokens) {
  Stage model = whole(gpt(24), 5);
  const torch::Tensor ids = tokens(2, 24, 65);
  const torch::Tensor before = model.forward(ids, {}).y;
  for (const std::int64_t t : {0, 1, 11, 22}) {
    torch::Tensor other = ids.clone();
    other.narrow(1, t + 1, 23 - t).add_(1).remainder_(65);
    const torch::Tensor after = model.forward(other, {}).y;
    EXPECT_TRUE(after.narrow(1, 0, t + 1).equal(before.narrow(1, 0, t + 1))) << t;
    EXPECT_FALSE(after.narrow(1, t + 1, 1).equal(before.narrow(1, t + 1, 1))) << t;
  }
}

TEST(Gpt, LaterPositionsSeeEarlierTokens) {
  Stage model = whole(gpt(24), 5);
  torch::Tensor ids = tokens(1, 24, 65);
  const torch::Tensor before = model.forward(ids, {}).y;
  ids[0][3] = (ids[0][3] + 1) % 65;
  const torch::Tensor changed = model.forward(ids, {}).y.ne(before).any(2)[0];
  EXPECT_FALSE(changed.narrow(0, 0, 3).any().item<bool>());
  EXPECT_TRUE(changed.narrow(0, 3, 21).all().item<bool>());
}

TEST(Bert, EveryPositionSeesEveryToken) {
  Stage model = whole(tiny("bert"), 5);
  torch::Tensor ids = tokens(1, 6, 11);
  const torch::Tensor before = model.forward(ids, {}).y;
  ids[0][5] = (ids[0][5] + 1) % 11;
  EXPECT_TRUE(model.forward(ids, {}).y.ne(before).any(2).all().item<bool>());
}

TEST_P(Transformers, CutAtEveryLayerTheyAreTheWholeBitForBit) {
  const ModelDescription description = tiny(GetParam(), 0.3);
  Stage model = whole(description, 9);
  torch::Tensor x = tokens(4, 6, 11);
  const std::vector<std::int64_t> samples = {5, 900, 2, 7};
  const Pass pass = {.training = true, .seed = 3, .step = 17, .samples = samples};
  const torch::Tensor expected = model.forward(x, pass).y;
  std::size_t slot = 0;
  const std::size_t count = make_layers(description).size();
  ASSERT_EQ(count, 5U);
  for (std::size_t i = 0; i < count; ++i) {
    Stage stage(make_layers(description), i, i + 1, 9);
    Shape input = stage.input_shape(), output = stage.output_shape();
    EXPECT_EQ(x.sizes().slice(1).vec(), input);
    for (const Slot& mine : stage.slots()) {
      EXPECT_EQ(mine.key, model.slots()[slot].key);
      EXPECT_TRUE(mine.value.equal(model.slots()[slot].value)) << mine.key;
      ++slot;
    }
    x = stage.forward(x, pass).y;
    EXPECT_EQ(x.sizes().slice(1).vec(), output);
  }
  EXPECT_EQ(slot, model.slots().size());
  EXPECT_EQ(x.sizes().vec(), (Shape{4, 6, 11}));
  EXPECT_TRUE(x.equal(expected));
}

TEST_P(Transformers, StartWithThePublishedDistributions) {
  ModelDescription description = gpt();
  description.name = parse_named<record::ModelName>(GetParam());
  const Stage model = whole(description, 3);
  for (const Slot& slot : model.slots()) {
    const bool norm = slot.key.find("ln_") != std::string::npos ||
                      slot.key.find("LayerNorm") != std::string::npos ||
                      slot.key.find("norm.") != std::string::npos;
    const bool bias = slot.key.ends_with(".bias");
    if (norm || bias) {
      EXPECT_TRUE(slot.value.eq(bias ? 0 : 1).all().item<bool>()) << slot.key;
      continue;
    }
    const bool residual = slot.key.ends_with("c_proj.weight");
    const double expected = residual ? 0.02 / std::sqrt(8.0) : 0.02;
    // Five standard errors of a deviation and of a mean.
    const auto n = static_cast<double>(slot.value.numel());
    EXPECT_NEAR(slot.value.std().item<double>(), expected, 5 * expected / std::sqrt(2 * n)) << slot.key;
    EXPECT_NEAR(slot.value.mean().item<double>(), 0, 5 * expected / std::sqrt(n)) << slot.key;
  }
}

TEST_P(Transformers, WithoutDropoutTrainingAndEvaluationAreTheSame) {
  Stage model = whole(tiny(GetParam(), 0), 1);
  const torch::Tensor ids = tokens(3, 6, 11);
  const std::vector<std::int64_t> samples = {0, 1, 2};
  EXPECT_TRUE(model.forward(ids, {.training = true, .samples = samples}).y.equal(model.forward(ids, {}).y));
}

TEST(TransformerDropout, IsOffForGptAndATenthForBertUnlessGiven) {
  const torch::Tensor ids = tokens(2, 6, 11);
  const std::vector<std::int64_t> samples = {4, 5};
  const Pass pass = {.training = true, .seed = 1, .samples = samples};
  const auto logits = [&](const std::string& name, std::optional<double> dropout) {
    return whole(tiny(name, dropout), 1).forward(ids, pass).y;
  };
  EXPECT_TRUE(logits("gpt", std::nullopt).equal(logits("gpt", 0)));
  EXPECT_TRUE(logits("bert", std::nullopt).equal(logits("bert", 0.1)));
  EXPECT_FALSE(logits("bert", std::nullopt).equal(logits("bert", 0)));
}

TEST_P(WithDropout, IsAFunctionOfSeedStepAndSample) {
  Stage model = whole(tiny(GetParam(), 0.4), 1);
  const torch::Tensor ids = tokens(3, 6, 11);
  const std::vector<std::int64_t> samples = {30, 10, 20}, permuted = {20, 30, 10}, others = {30, 10, 21};
  const auto logits = [&](const torch::Tensor& rows, const std::vector<std::int64_t>& numbers,
                          std::uint64_t seed, std::int64_t step) {
    return model.forward(rows, {.training = true, .seed = seed, .step = step, .samples = numbers}).y;
  };
  const torch::Tensor base = logits(ids, samples, 1, 2);
  EXPECT_TRUE(base.equal(logits(ids, samples, 1, 2)));
  EXPECT_FALSE(base.equal(logits(ids, samples, 2, 2)));
  EXPECT_FALSE(base.equal(logits(ids, samples, 1, 3)));
  const torch::Tensor order = torch::tensor({2, 0, 1});
  EXPECT_TRUE(base.index_select(0, order).equal(logits(ids.index_select(0, order), permuted, 1, 2)));
  const torch::Tensor other = logits(ids, others, 1, 2);
  EXPECT_TRUE(base.narrow(0, 0, 2).equal(other.narrow(0, 0, 2)));
  EXPECT_FALSE(base[2].equal(other[2]));
}

TEST_P(Transformers, EveryParameterLearnsInEveryPrecision) {
  const torch::Tensor ids = tokens(2, 6, 11);
  const std::vector<std::int64_t> samples = {0, 1};
  const Pass pass = {.training = true, .samples = samples};
  for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16}) {
    Stage model = whole(tiny(GetParam(), 0.2), 1, {.dtype = dtype});
    const torch::Tensor y = model.forward(ids, pass).y;
    EXPECT_EQ(y.scalar_type(), dtype);
    torch::cross_entropy_loss(y.flatten(0, 1), ids.flatten()).backward();
    for (const Slot& slot : model.slots()) {
      ASSERT_TRUE(slot.value.grad().defined()) << slot.key;
      EXPECT_EQ(slot.value.grad().scalar_type(), dtype);
      EXPECT_TRUE(slot.value.grad().isfinite().all().item<bool>()) << slot.key;
      // A constant added to all keys shifts all scores of a query alike, and softmax takes it away.
      if (slot.key.ends_with(".key.bias")) continue;
      EXPECT_TRUE(slot.value.grad().ne(0).any().item<bool>()) << slot.key;
    }
  }
}

ModelDescription llama(int kv_heads, bool tied) {
  return {.name = record::ModelName::llama,
          .input = {8},
          .classes = 11,
          .layers = 1,
          .heads = 4,
          .width = 16,
          .kv_heads = kv_heads,
          .feed_forward = 24,
          .tied = tied};
}

TEST(Llama, HasTheKeysOfLlamaForCausalLM) {
  std::map<std::string, Shape> expected = {{"model.embed_tokens.weight", {11, 16}},
                                           {"model.layers.0.input_layernorm.weight", {16}},
                                           {"model.layers.0.self_attn.q_proj.weight", {16, 16}},
                                           {"model.layers.0.self_attn.k_proj.weight", {8, 16}},
                                           {"model.layers.0.self_attn.v_proj.weight", {8, 16}},
                                           {"model.layers.0.self_attn.o_proj.weight", {16, 16}},
                                           {"model.layers.0.post_attention_layernorm.weight", {16}},
                                           {"model.layers.0.mlp.gate_proj.weight", {24, 16}},
                                           {"model.layers.0.mlp.up_proj.weight", {24, 16}},
                                           {"model.layers.0.mlp.down_proj.weight", {16, 24}},
                                           {"model.norm.weight", {16}},
                                           {"lm_head.weight", {11, 16}}};
  EXPECT_EQ(shapes(whole(llama(2, false), 1)), expected);
  expected.erase("lm_head.weight");
  EXPECT_EQ(shapes(whole(llama(2, true), 1)), expected);
  expected["model.layers.0.self_attn.k_proj.weight"] =
      expected["model.layers.0.self_attn.v_proj.weight"] = {16, 16};
  EXPECT_EQ(shapes(whole(llama(0, true), 1)), expected);
}

TEST(Llama, TheUsualFeedForwardPartIsEightThirdsWide) {
  // Llama 7B has 4096 and 11008, a multiple of 256.
  const std::map<std::int64_t, std::int64_t> expected = {
      {4096, 10944}, {96, 256}, {48, 128}, {49, 160}, {1, 32}};
  for (const auto& [width, inner] : expected) EXPECT_EQ(usual_feed_forward(width), inner) << width;
}

TEST(Llama, ATiedMatrixLearnsFromBothUses) {
  const torch::Tensor ids =
      tokens(2, 8, 5);  // tokens 5 to 10 are never read: only the head reaches their rows
  Stage tied = whole(llama(2, true), 3), untied = whole(llama(2, false), 3);
  for (Stage* model : {&tied, &untied}) {
    torch::cross_entropy_loss(model->forward(ids, {}).y.flatten(0, 1), ids.flatten()).backward();
  }
  const auto reached = [](const Slot& slot) { return slot.value.grad().ne(0).any(1); };
  EXPECT_TRUE(reached(tied.slots().front()).all().item<bool>());
  EXPECT_FALSE(reached(untied.slots().front()).narrow(0, 5, 6).any().item<bool>());
}

TEST(Llama, PositionsMatterAndLaterTokensDoNot) {
  Stage model = whole(llama(1, false), 5);
  const torch::Tensor ids = tokens(1, 8, 11);
  const torch::Tensor before = model.forward(ids, {}).y;
  torch::Tensor other = ids.clone();
  other[0][6] = (other[0][6] + 1) % 11;
  const torch::Tensor changed = model.forward(other, {}).y.ne(before).any(2)[0];
  EXPECT_FALSE(changed.narrow(0, 0, 6).any().item<bool>());
  EXPECT_TRUE(changed.narrow(0, 6, 2).all().item<bool>());
  // Two earlier tokens that change places: without positions the last one would see the same set of them.
  other = ids.clone();
  other[0][2] = ids[0][4];
  other[0][4] = ids[0][2];
  EXPECT_TRUE(model.forward(other, {}).y.ne(before).any(2)[0][7].item<bool>());
  // A shorter context is the beginning of a longer one.
  EXPECT_TRUE(model.forward(ids.narrow(1, 0, 5), {})
                  .y.allclose(before.narrow(1, 0, 5), /*rtol=*/1e-5, /*atol=*/1e-6));
}

TEST(Gpt, CostsCountProjectionsAndAttention) {
  const auto costs = estimated_costs(make_layers(gpt()));
  ASSERT_EQ(costs.size(), 6U);
  EXPECT_EQ(costs[1], 64.0 * 12 * 128 * 128 + 2.0 * 64 * 64 * 128);
  EXPECT_EQ(costs[5], 64.0 * 128 * 65);
  EXPECT_EQ(cut_layers(costs, 2), (std::vector<std::pair<std::size_t, std::size_t>>{{0, 3}, {3, 6}}));
}

}  // namespace
}  // namespace bitrift::nn::transformer_test
