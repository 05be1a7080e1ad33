#include "ckpt/dialect/layers.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "core/error.h"

namespace bitrift::ckpt::layers_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Names = std::vector<std::string>;

/// The names come back in the given order from any other.
void expect_order(const Names& names) {
  Names shuffled = names;
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(in_model_order(shuffled), names);
  std::reverse(shuffled.begin(), shuffled.end());
  EXPECT_EQ(in_model_order(shuffled), names);
}

Outline outline_with(const Names& layers, const Names& roles, const Names& order = {}) {
  Outline outline;
  outline.layers = layers;
  outline.roles = roles;
  outline.order = order;
  return outline;
}

std::string refusal(const LayerList& layers, const std::string& selector) {
  try {
    static_cast<void>(layers.resolve({selector}, "f.h5"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ModelOrder, IsThatOfUsualModels) {
  expect_order({"conv1", "conv2", "fc1", "fc2", "fc3"});
  expect_order({"fc1", "bn1", "fc2", "bn2", "fc9", "bn9", "fc10", "bn10", "fc11"});
  expect_order({"conv1", "bn1", "layer1.0.conv1", "layer1.0.bn1", "layer1.0.conv2", "layer1.0.bn2",
                "layer2.0.conv1", "layer2.0.downsample.0", "layer2.0.downsample.1", "layer10.0.conv1", "fc"});
  expect_order({"features.0", "features.1", "features.10", "classifier.1", "classifier.4"});
  expect_order({"conv1.conv", "conv1.bn", "inception3a.branch1.conv", "inception3a.branch1.bn",
                "inception4a.branch2.0.conv", "aux1.conv.conv", "aux1.fc1", "aux1.fc2", "fc"});
  expect_order({"transformer.wte", "transformer.wpe", "transformer.h.0.ln_1", "transformer.h.0.attn.c_attn",
                "transformer.h.0.attn.c_proj", "transformer.h.0.ln_2", "transformer.h.0.mlp.c_fc",
                "transformer.h.0.mlp.c_proj", "transformer.h.2.ln_1", "transformer.h.10.ln_1",
                "transformer.ln_f", "lm_head"});
  expect_order({"bert.embeddings.word_embeddings", "bert.embeddings.position_embeddings",
                "bert.embeddings.token_type_embeddings", "bert.embeddings.LayerNorm",
                "bert.encoder.layer.0.attention.self.query", "bert.encoder.layer.0.attention.self.key",
                "bert.encoder.layer.0.attention.self.value", "bert.encoder.layer.0.attention.output.dense",
                "bert.encoder.layer.0.attention.output.LayerNorm", "bert.encoder.layer.0.intermediate.dense",
                "bert.encoder.layer.0.output.dense", "bert.encoder.layer.0.output.LayerNorm",
                "cls.predictions.transform.dense", "cls.predictions.decoder"});
  expect_order({"patch_embed.proj", "blocks.0.norm1", "blocks.0.attn.qkv", "blocks.0.attn.proj",
                "blocks.0.norm2", "blocks.0.mlp.fc1", "blocks.0.mlp.fc2", "blocks.11.norm1", "norm", "head"});
  expect_order({"conv2d", "batch_normalization", "conv2d_1", "batch_normalization_1", "conv2d_10", "dense",
                "dense_1", "dense_10"});
  expect_order({"predictor/conv1", "predictor/bn1", "predictor/res2/0/conv1", "predictor/res10/0/conv1",
                "predictor/fc6"});
  expect_order({"conv1", "bn1", "scale1", "conv2", "bn2", "scale2", "ip1", "ip2"});
  expect_order({"encoder.layer1", "decoder.layer1"});
}

TEST(ModelOrder, KeepsEveryNameAndNamesInsideOthers) {
  expect_order({"a", "a.b", "a.b.c", "b"});
  expect_order({"0", "2", "10"});
  EXPECT_TRUE(in_model_order({}).empty());
}

TEST(LayerList, CountsNaturallyUnlessTheFileStatesAnOrder) {
  const LayerList natural(outline_with({"fc", "conv1", "conv1", "conv10", "conv2", ""},
                                       {"weight", "weight", "bias", "weight", "norm", "rng"}));
  EXPECT_EQ(natural.order(), "natural");
  Names names;
  for (const auto& layer : natural.layers()) names.push_back(layer.name);
  EXPECT_THAT(names, ElementsAre("conv1", "conv2", "conv10", "fc"));
  EXPECT_FALSE(natural.layers()[1].has_weight);

  const LayerList stated(
      outline_with({"z", "a", "m", "x"}, {"weight", "weight", "norm", "weight"}, {"input", "m", "z", "a"}));
  EXPECT_EQ(stated.order(), "stated");
  names.clear();
  for (const auto& layer : stated.layers()) names.push_back(layer.name);
  EXPECT_THAT(names, ElementsAre("m", "z", "a", "x"));
  EXPECT_THAT(stated.resolve({"first"}, "f"), ElementsAre("z"));
}

TEST(LayerList, ResolvesPositionsNumbersAndNames) {
  const LayerList list(outline_with({"conv1", "bn1", "conv2", "conv3", "fc"},
                                    {"weight", "norm", "weight", "weight", "weight"}));
  EXPECT_THAT(list.resolve({"first"}, "f"), ElementsAre("conv1"));
  EXPECT_THAT(list.resolve({"last"}, "f"), ElementsAre("fc"));
  EXPECT_THAT(list.resolve({"middle"}, "f"), ElementsAre("conv3"));  // of conv1, conv2, conv3, fc
  EXPECT_THAT(list.resolve({"1"}, "f"), ElementsAre("bn1"));
  EXPECT_THAT(list.resolve({"4", "conv2", "last"}, "f"), ElementsAre("conv2", "fc"));
  EXPECT_TRUE(list.resolve({}, "f").empty());
  const LayerList one(outline_with({"x"}, {"weight"}));
  EXPECT_THAT(one.resolve({"first", "middle", "last", "0"}, "f"), ElementsAre("x"));
}

TEST(LayerList, RefusesWhatNamesNoLayer) {
  const LayerList list(outline_with({"conv1", "bn1"}, {"weight", "norm"}));
  EXPECT_THAT(refusal(list, "2"), HasSubstr("f.h5: has no layer number 2: they are 0 to 1"));
  EXPECT_THAT(refusal(list, "99999999999999999999999999"), HasSubstr("has no layer number"));
  EXPECT_THAT(refusal(list, "conv"), HasSubstr("has no layer 'conv'"));
  EXPECT_THAT(refusal(list, ""), HasSubstr("has no layer ''"));
  EXPECT_THAT(refusal(list, "-1"), HasSubstr("has no layer '-1'"));
  EXPECT_THAT(refusal(LayerList(outline_with({"a"}, {"norm"})), "last"), HasSubstr("none of its 1 layers"));
  EXPECT_THAT(refusal(LayerList(outline_with({""}, {"weight"})), "last"),
              HasSubstr("no layers can be recognised"));
}

}  // namespace
}  // namespace bitrift::ckpt::layers_test
