#include "ckpt/dialect/outline.h"

#include <algorithm>
#include <map>
#include <utility>

#include <gmock/gmock.h>

#include "ckpt/dialect/roles.h"

namespace bitrift::ckpt::outline_test {
namespace {

using ::testing::ElementsAre;

using Shape = std::vector<std::uint64_t>;
using Attributes = std::map<std::pair<std::string, std::string>, std::vector<std::string>>;

/// A file as outline_of() sees it, and what it tells of each dataset.
class File {
 public:
  explicit File(std::vector<Dataset> datasets, Attributes attributes = {}) : datasets_(std::move(datasets)) {
    std::sort(datasets_.begin(), datasets_.end(),
              [](const Dataset& a, const Dataset& b) { return a.path < b.path; });
    outline = outline_of(datasets_, [attributes](const std::string& group, const std::string& name) {
      const auto at = attributes.find({group, name});
      return at == attributes.end() ? std::vector<std::string>() : at->second;
    });
  }
  [[nodiscard]] std::string role(const std::string& path) const { return outline.roles.at(index(path)); }
  [[nodiscard]] std::string layer(const std::string& path) const { return outline.layers.at(index(path)); }
  Outline outline;

 private:
  [[nodiscard]] std::size_t index(const std::string& path) const {
    for (std::size_t i = 0; i < datasets_.size(); ++i) {
      if (datasets_[i].path == path) return i;
    }
    ADD_FAILURE() << path;
    return 0;
  }
  std::vector<Dataset> datasets_;
};

struct Expected {
  const char* path;
  Shape shape;
  const char* role;
  const char* layer;
};

void expect(const std::string& layout, const std::vector<Expected>& rows, const Attributes& attributes = {}) {
  std::vector<Dataset> datasets;
  for (const Expected& row : rows) datasets.push_back({row.path, row.shape});
  const File file(datasets, attributes);
  EXPECT_EQ(file.outline.layout, layout);
  for (const Expected& row : rows) {
    EXPECT_EQ(file.role(row.path), row.role) << row.path;
    EXPECT_EQ(file.layer(row.path), row.layer) << row.path;
    EXPECT_THAT(role_names(), ::testing::Contains(file.role(row.path)));
  }
  EXPECT_THAT(layout_names(), ::testing::Contains(file.outline.layout));
}

TEST(Outline, OfOursFollowsFromPaths) {
  const Attributes ours = {{{"", "schema"}, {"bitrift/checkpoint/1"}}};
  expect("bitrift",
         {{"checksum/path", {9}, "checksum", ""},
          {"model/conv1.weight", {4, 3}, "weight", "conv1"},
          {"model/fc.bias", {2}, "bias", "fc"},
          {"model/h.0.ln_1.weight", {8}, "weight", "h.0.ln_1"},  // no running mean, and shapes do not count
          {"model/layer1.0.bn.weight", {4}, "norm", "layer1.0.bn"},
          {"model/layer1.0.bn.running_mean", {4}, "running_stat", "layer1.0.bn"},
          {"model/table", {4}, "unknown", ""},
          {"optimizer/exp_avg/layer1.0.bn.weight", {4}, "exp_avg", "layer1.0.bn"},
          {"optimizer/square_avg/fc.weight", {4, 4}, "exp_avg_sq", "fc"},
          {"optimizer/step/fc.bias", {}, "step", "fc"},
          {"optimizer/other/fc.weight", {}, "unknown", "fc"},
          {"progress/epoch", {}, "progress", ""},
          {"replica/1/model/layer1.0.bn.running_mean", {4}, "running_stat", "layer1.0.bn"},
          {"rng/seed", {}, "rng", ""}},
         ours);
}

TEST(Outline, OfUnmarkedFilesWithOurNamesIsPyTorchs) {
  expect("pytorch", {{"model/bn.running_mean", {4}, "running_stat", "bn"},
                     {"model/bn.weight", {4}, "norm", "bn"},
                     {"model/conv1.weights", {4, 3}, "unknown", "conv1"},
                     {"optimizer/momentum_buffer/bn.weight", {4}, "momentum", "bn"},
                     {"optimizer/other/w.weight", {4}, "unknown", ""},
                     {"checksum", {4}, "unknown", ""},
                     {"replica/1/rng/state", {4}, "rng", ""},
                     {"replica/x/progress/epoch", {}, "unknown", "replica/x/progress"},
                     {"replica/1/model/bn.running_mean", {4}, "running_stat", "bn"},
                     {"weight", {4}, "weight", ""}});
}

TEST(Outline, OfPyTorchDumpsTakesDotsAndSlashesAndWrappers) {
  expect("pytorch", {{"epoch", {}, "progress", ""},
                     {"state_dict/module.conv1.weight", {8, 3, 3, 3}, "weight", "conv1"},
                     {"state_dict/module.conv1.bias", {8}, "bias", "conv1"},
                     {"state_dict/module.norm.weight", {8}, "norm", "norm"},  // layer norm: by shape
                     {"state_dict/module.norm.bias", {8}, "norm", "norm"},
                     {"state_dict/module.rms_norm.weight", {8}, "norm", "rms_norm"},
                     {"state_dict/module.prelu.weight", {8}, "weight", "prelu"},
                     {"state_dict/module.rnn.weight_ih_l0", {8, 8}, "weight", "rnn"},
                     {"state_dict/module.rnn.bias_hh_l1_reverse", {8}, "bias", "rnn"},
                     {"state_dict/module.cell.weight_ih", {32, 8}, "weight", "cell"},
                     {"state_dict/module.cell.bias_hh", {32}, "bias", "cell"},
                     {"state_dict/module.sn.weight_orig", {4, 8}, "weight", "sn"},
                     {"state_dict/module.sn.weight_u", {4}, "running_stat", "sn"},
                     {"state_dict/module.sn.weight_v", {8}, "running_stat", "sn"},
                     {"state_dict/module.wn.weight_v", {4, 8}, "weight", "wn"},
                     {"state_dict/module.psn.parametrizations.weight.original", {4, 8}, "weight", "psn"},
                     {"state_dict/module.psn.parametrizations.weight.0._v", {8}, "running_stat", "psn"},
                     {"state_dict/module.memory._v", {8}, "unknown", "memory"},
                     {"state_dict/module.attn.bias_k", {1, 1, 8}, "bias", "attn"},
                     {"state_dict/module.attn.in_proj_weight", {24, 8}, "weight", "attn"},
                     {"state_dict/module.attn.in_proj_bias", {24}, "bias", "attn"},
                     {"state_dict/module.attn.q_bias", {8}, "bias", "attn"},
                     {"state_dict/module.rnn.weight_hr_l1", {4, 8}, "weight", "rnn"},
                     {"state_dict/module.pos.parametrizations.weight.original0", {1, 1, 8}, "weight", "pos"},
                     {"state_dict/module.pos.parametrizations.weight.original1", {8, 4, 8}, "weight", "pos"},
                     {"state_dict/module.pos.original0", {8}, "unknown", "pos"},
                     {"state_dict/module.mlp.experts.gate_up_proj", {4, 8, 8}, "weight", "mlp.experts"},
                     {"state_dict/module.mlp.experts.down_proj_bias", {4, 8}, "bias", "mlp.experts"},
                     {"state_dict/module.vit.cls_token", {1, 1, 8}, "weight", "vit"},
                     {"state_dict/module.coat.cls_token2", {1, 1, 8}, "weight", "coat"},
                     {"state_dict/module.pool.layer_scale1.scale", {8}, "weight", "pool.layer_scale1"},
                     {"state_dict/module.levit.attention_biases", {2, 8}, "weight", "levit"},
                     {"state_dict/module.next.0.gamma", {8}, "unknown", "next.0"},
                     {"state_dict/module.callbacks.weight", {8, 8}, "weight", "callbacks"},
                     {"callbacks/EarlyStopping{'monitor': 'loss'}/best_score", {}, "unknown", ""},
                     {"averaging_state/n_averaged", {}, "unknown", ""},
                     {"state_dict/module.mask", {8}, "unknown", ""},
                     {"optimizer/state/0/exp_avg", {8}, "exp_avg", ""},
                     {"optimizer/state/0/exp_avg_sq", {8}, "exp_avg_sq", ""},
                     {"optimizer/state/0/square_avg", {8}, "exp_avg_sq", ""},
                     {"opt/state/0/grad_avg", {8}, "exp_avg", ""},  // fastai: Adam, and SGD with momentum
                     {"opt/state/0/sqr_avg", {8}, "exp_avg_sq", ""},
                     {"opt/state/1/grad_avg", {8}, "momentum", ""},
                     {"optimizer/state/0/step", {}, "step", ""},
                     {"optimizer_states/0/state/3/exp_avg", {8}, "exp_avg", ""},
                     {"optimizer_states/1/state/0/momentum_buffer", {8}, "momentum", ""},
                     {"optimizer/critic/state/0/exp_avg_sq", {8}, "exp_avg_sq", ""},
                     {"state_dict/module.fc.weight/qdata", {8, 3}, "weight", "fc"},
                     {"state_dict/module.fc.weight/scale", {8, 1}, "weight", "fc"},
                     {"optimizer/state/0/exp_avg/codes", {8}, "exp_avg", ""},
                     {"opt/state/0/exp_avg_sq", {8}, "exp_avg_sq", ""},
                     {"opts/1/state/3/step", {}, "step", ""},
                     {"opt/state/0/max_exp_avg_sq", {8}, "unknown", ""},
                     {"opt/param_groups/0/lr", {}, "progress", ""},
                     {"trunk/state/0/weight", {8, 3}, "weight", "trunk/state/0"},
                     {"state/0/exp_avg", {8}, "exp_avg", ""},
                     {"state/encoder/exp_avg", {8}, "unknown", "state/encoder"},
                     {"optimizer/state/0/max_exp_avg_sq", {8}, "unknown", ""},
                     {"optimizer/param_groups/0/lr", {}, "progress", ""},
                     {"optimizer/param_groups/0/betas", {2}, "unknown", ""}});
  expect("pytorch", {{"layer1/0/conv1/weight", {8, 3}, "weight", "layer1/0/conv1"},
                     {"layer1/0/bn1/running_var", {8}, "running_stat", "layer1/0/bn1"},
                     {"layer1/0/bn1/num_batches_tracked", {}, "running_stat", "layer1/0/bn1"}});
  expect("pytorch", {{"model/parameters/bn.weight", {8}, "norm", "bn"},
                     {"model/parameters/bn.bias", {8}, "norm", "bn"},
                     {"model/buffers/bn.running_mean", {8}, "running_stat", "bn"},
                     {"optimizer/state0/momentum_buffer", {8}, "momentum", ""},
                     {"optimizer/group0/lr", {}, "progress", ""}});
}

TEST(Outline, OfALegacyKerasModelStatesItsLayers) {
  const Attributes attributes = {{{"", "keras_version"}, {"2.9.0"}},
                                 {{"model_weights", "layer_names"}, {"input_1", "conv2d", "bn", "dense"}}};
  const std::vector<Expected> rows = {
      {"model_weights/bn/bn/beta:0", {8}, "norm", "bn"},
      {"model_weights/bn/bn/gamma:0", {8}, "norm", "bn"},
      {"model_weights/bn/bn/moving_mean:0", {8}, "running_stat", "bn"},
      {"model_weights/bn/bn/moving_variance:0", {8}, "running_stat", "bn"},
      {"model_weights/conv2d/conv2d/bias:0", {8}, "bias", "conv2d"},
      {"model_weights/conv2d/conv2d/kernel:0", {3, 3, 1, 8}, "weight", "conv2d"},
      {"model_weights/dense/sequential/dense/kernel", {8, 2}, "weight", "dense"},  // as Keras 3 writes it
      {"model_weights/dense/dense/kernel_1:0", {8, 2}, "weight", "dense"},
      {"model_weights/dense/dense/odd:0", {8, 2}, "unknown", "dense"},
      {"model_weights/top_level_model_weights/x:0", {8}, "unknown", ""},
      {"optimizer_weights/Adam/iter:0", {}, "step", ""},
      {"optimizer_weights/Adam/learning_rate:0", {}, "progress", ""},
      {"optimizer_weights/Adam/dense/kernel/m:0", {8, 2}, "exp_avg", "dense"},
      {"optimizer_weights/Adam/dense/kernel/v:0", {8, 2}, "exp_avg_sq", "dense"},
      {"optimizer_weights/Adam/dense/kernel/vhat:0", {8, 2}, "unknown", "dense"},
      {"optimizer_weights/training/Adam/conv2d/bias/m:0", {8}, "exp_avg", "conv2d"},
      {"optimizer_weights/Adam/m/conv2d/kernel:0", {8}, "exp_avg", "conv2d"},  // 2.11 on
      {"optimizer_weights/SGD/m/conv2d/kernel:0", {8}, "momentum", "conv2d"},
      {"optimizer_weights/SGD/conv2d/bias/momentum:0", {8}, "momentum", "conv2d"},
      {"optimizer_weights/RMSprop/conv2d/bias/rms:0", {8}, "exp_avg_sq", "conv2d"},
      {"optimizer_weights/adam/iteration", {}, "step", ""},  // 3
      {"optimizer_weights/adam/dense_kernel_momentum", {8}, "exp_avg", ""},
      {"optimizer_weights/adam/dense_kernel_velocity", {8}, "exp_avg_sq", ""},
      {"optimizer_weights/sgd/dense_kernel_momentum", {8}, "momentum", ""},
      {"optimizer_weights/adamax/dense/kernel/v:0", {8}, "unknown", "dense"},
      {"optimizer_weights/training/Adam/Variable:0", {8}, "unknown", ""},
      {"optimizer_weights/Adadelta/dense/kernel/v:0", {8}, "unknown", "dense"}};
  expect("keras", rows, attributes);
  const File file({{"model_weights/bn/bn/beta:0", {8}}}, attributes);
  EXPECT_THAT(file.outline.order, ElementsAre("input_1", "conv2d", "bn", "dense"));
}

TEST(Outline, OfKerasWeightsAloneStandsAtTheRoot) {
  expect("keras",
         {{"block1_conv1/block1_conv1_W_1:0", {3, 3, 3, 8}, "weight", "block1_conv1"},  // Keras 1
          {"block1_conv1/block1_conv1_b_1:0", {8}, "bias", "block1_conv1"},
          {"bn/bn_running_std:0", {8}, "running_stat", "bn"},
          {"lstm/lstm/lstm_cell/recurrent_kernel:0", {8, 32}, "weight", "lstm"}},
         {{{"", "layer_names"}, {"block1_conv1", "bn", "lstm"}}});
  // Too long for one attribute.
  const File file({{"a/a/kernel:0", {2, 2}}, {"b/b/kernel:0", {2, 2}}},
                  {{{"", "layer_names0"}, {"b"}}, {{"", "layer_names1"}, {"a"}}});
  EXPECT_EQ(file.outline.layout, "keras");
  EXPECT_THAT(file.outline.order, ElementsAre("b", "a"));
}

TEST(Outline, OfKerasLayersWithSlashes) {
  const std::vector<Expected> rows = {
      {"a/b/a/b/kernel:0", {2, 2}, "weight", "a/b"},
      {"a/a/kernel:0", {2, 2}, "weight", "a"},
      {"a/b/kernel:0", {2, 2}, "weight", "a"},  // which lists it
      {"c/d/e/kernel:0", {2, 2}, "weight", "c/d"},
      {"c/x/kernel:0", {2, 2}, "weight", ""},
      {"optimizer_weights/Adam/c/d/kernel/m:0", {2, 2}, "exp_avg", "c/d"},
      {"optimizer_weights/Adam/m/a/b/kernel:0", {2, 2}, "exp_avg", "a/b"},
      {"optimizer_weights/adamax_1/a/b/kernel/v:0", {2, 2}, "unknown", "a/b"}};
  expect("keras", rows,
         {{{"", "layer_names"}, {"a/b", "a", "c/d"}},
          {{"a", "weight_names"}, {"a/kernel:0", "b/kernel:0"}},
          {{"a/b", "weight_names"}, {"a/b/kernel:0"}}});
}

TEST(Outline, OfKeras3QuantizedLayersTellsScalesFromBiases) {
  const auto roles = [](const std::vector<std::pair<Shape, std::string>>& variables) {
    std::vector<Dataset> datasets;
    for (const auto& [shape, dtype] : variables)
      datasets.push_back({"layers/dense/vars/" + std::to_string(datasets.size()), shape, dtype});
    const File file(datasets);
    std::vector<std::string> found;
    for (const Dataset& one : datasets) found.push_back(file.role(one.path));
    return found;
  };
  EXPECT_THAT(roles({{{8, 4}, "int8"}, {{4}, "float32"}, {{4}, "float32"}}),
              ElementsAre("weight", "bias", "unknown"));
  EXPECT_THAT(roles({{{8, 4}, "int8"}, {{4}, "float32"}}), ElementsAre("weight", "unknown"));
  EXPECT_THAT(roles({{{8, 4}, "float32"}, {{4}, "float32"}, {{4}, "float32"}}),
              ElementsAre("unknown", "unknown", "unknown"));
  EXPECT_THAT(roles({{{4}, "float32"}, {{4, 8}, "uint8"}}), ElementsAre("unknown", "unknown"));
}

TEST(Outline, OfKeras3GroupsAndNamesThatContradictEachOtherCountForNothing) {
  expect("keras-v3",
         {{"layers/dense/vars/0", {8}, "unknown", "dense"},
          {"layers/layer_normalization/vars/0", {8}, "norm", "layer_normalization"},
          {"dense/vars/0", {8}, "unknown", "dense"},
          {"normalization/vars/0", {8}, "unknown", "normalization"},
          {"other/vars/0", {8}, "norm", "other"}},
         {{{"layers/layer_normalization/vars", "name"}, {"dense"}},
          {{"dense/vars", "name"}, {"batch_normalization_2"}},
          {{"normalization/vars", "name"}, {"layer_normalization"}},
          {{"other/vars", "name"}, {"layer_normalization_1"}}});
}

TEST(Outline, OfPicklesHasTheOrderInWhichTheyWereWritten) {
  const auto order = [](std::vector<std::string> written) {
    std::vector<Dataset> datasets;
    for (const std::string& path : written) datasets.push_back({path, {2, 2}});
    std::sort(datasets.begin(), datasets.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
    return outline_of(
               datasets, [](const auto&, const auto&) { return std::vector<std::string>(); }, written)
        .order;
  };
  EXPECT_THAT(order({"z.weight", "z.bias", "a.weight"}), ElementsAre("z", "a"));
  EXPECT_THAT(order({"a.weight", "z.weight"}), ElementsAre("a", "z"));
  EXPECT_THAT(
      order({"optimizer/exp_avg/b.weight", "optimizer/exp_avg/c.weight", "model/b.weight", "model/a.weight"}),
      ElementsAre("b", "a", "c"));
  // A tool has sorted these, as the bias is before its weight.
  EXPECT_TRUE(order({"a.bias", "a.weight", "z.weight"}).empty());
  EXPECT_THAT(order({"z.bias", "z.weight", "a.weight"}), ElementsAre("z", "a"));
}

TEST(Outline, OfKeras3WeightsNumbersVariables) {
  expect(
      "keras-v3",
      {{"layers/batch_normalization_1/vars/0", {8}, "norm", "batch_normalization_1"},
       {"layers/batch_normalization_1/vars/1", {8}, "norm", "batch_normalization_1"},
       {"layers/batch_normalization_1/vars/2", {8}, "running_stat", "batch_normalization_1"},
       {"layers/batch_normalization_1/vars/3", {8}, "running_stat", "batch_normalization_1"},
       {"layers/conv2d/vars/0", {3, 3, 1, 8}, "weight", "conv2d"},
       {"layers/conv2d/vars/1", {8}, "bias", "conv2d"},
       {"layers/separable_conv2d/vars/0", {3, 3, 8, 1}, "weight", "separable_conv2d"},
       {"layers/separable_conv2d/vars/1", {1, 1, 8, 8}, "weight", "separable_conv2d"},
       {"layers/separable_conv2d/vars/2", {8}, "bias", "separable_conv2d"},
       {"layers/dense_12/vars/0", {8, 2}, "weight", "dense_12"},
       {"layers/dropout/seed_generator/vars/0", {2}, "rng", ""},
       {"layers/embedding/vars/0", {100, 8}, "weight", "embedding"},
       {"layers/gru/cell/vars/0", {8, 24}, "weight", "gru/cell"},
       {"layers/gru/cell/vars/1", {8, 24}, "weight", "gru/cell"},
       {"layers/gru/cell/vars/2", {2, 24}, "bias", "gru/cell"},
       {"layers/layer_normalization/vars/0", {8}, "norm", "layer_normalization"},
       {"layers/multi_head_attention/query_dense/vars/0",
        {8, 2, 4},
        "weight",
        "multi_head_attention/query_dense"},
       {"layers/multi_head_attention/query_dense/vars/1", {2, 4}, "bias", "multi_head_attention/query_dense"},
       {"layers/my_thing/vars/0", {8, 4}, "weight", "my_thing"},
       {"layers/my_thing/vars/1", {4}, "bias", "my_thing"},
       {"layers/my_other/vars/0", {8, 4}, "unknown", "my_other"},
       {"layers/my_other/vars/1", {5}, "unknown", "my_other"},
       {"layers/named/vars/0", {8}, "norm", "named"},
       {"optimizer/vars/0", {}, "step", ""},
       {"optimizer/vars/1", {}, "progress", ""},
       {"optimizer/vars/2", {8, 2}, "exp_avg", ""},
       {"optimizer/vars/3", {8, 2}, "exp_avg_sq", ""},
       {"optimizer/vars/4", {2}, "exp_avg", ""},
       {"optimizer/vars/5", {2}, "exp_avg_sq", ""}},
      {{{"optimizer/vars", "name"}, {"adam"}}, {{"layers/named/vars", "name"}, {"layer_normalization_3"}}});
}

TEST(Outline, OfKeras3OptimizersSaysUnknownWhereTheFileDoesNotSayMore) {
  const auto slots = [](const std::vector<Shape>& shapes, const std::string& name) {
    std::vector<Dataset> datasets = {
        {"layers/dense/vars/0", {8, 2}}, {"optimizer/vars/0", {}}, {"optimizer/vars/1", {}}};
    for (const Shape& shape : shapes)
      datasets.push_back({"optimizer/vars/" + std::to_string(datasets.size() - 1), shape});
    const File file(datasets, {{{"optimizer/vars", "name"}, {name}}});
    std::vector<std::string> roles;
    for (std::size_t i = 3; i < datasets.size(); ++i) roles.push_back(file.role(datasets[i].path));
    return roles;
  };
  EXPECT_THAT(slots({{8, 2}}, "SGD"),
              ElementsAre("unknown"));  // a momentum, an average or a sum of gradients
  EXPECT_THAT(slots({{8, 2}, {8, 2}, {8, 2}}, "sgd"), ElementsAre("unknown", "unknown", "momentum"));
  EXPECT_THAT(slots({{8, 2}}, "rm_sprop_1"), ElementsAre("exp_avg_sq"));
  EXPECT_THAT(slots({{8, 2}, {8, 2}, {}}, "nadam"), ElementsAre("exp_avg", "exp_avg_sq", "unknown"));
  EXPECT_THAT(slots({{8, 2}, {8, 2}}, "adamax"), ElementsAre("exp_avg", "unknown"));
  EXPECT_THAT(slots({{8, 2}, {8, 2}}, "adamw"), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(slots({{8, 2}, {8, 2}}, "adam_12"), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(slots({{8, 2}, {8, 2}}, "adam_w_2"), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(slots({{8, 2}, {8, 2}, {8, 2}}, "adam"), ElementsAre("unknown", "unknown", "unknown"));
  EXPECT_THAT(slots({{8, 2}, {8, 2}, {2}, {8, 2}}, "adam"),
              ElementsAre("unknown", "unknown", "unknown", "unknown"));
  EXPECT_THAT(slots({{8, 2}, {8, 2}}, "rmsprop"), ElementsAre("unknown", "unknown"));
  EXPECT_THAT(slots({{8, 2}, {8, 2}}, ""), ElementsAre("unknown", "unknown"));
}

TEST(Outline, OfAChainerSnapshot) {
  expect("chainer",
         {{"_snapshot_elapsed_time", {}, "unknown", ""},
          {"updater/iteration", {}, "progress", ""},
          {"updater/iterator:main/epoch", {}, "progress", ""},
          {"updater/iterator:main/order", {100}, "progress", ""},
          {"updater/model:main/predictor/bn1/N", {}, "running_stat", "predictor/bn1"},
          {"updater/model:main/predictor/bn1/avg_mean", {8}, "running_stat", "predictor/bn1"},
          {"updater/model:main/predictor/bn1/beta", {8}, "norm", "predictor/bn1"},
          {"updater/model:main/predictor/bn1/gamma", {8}, "norm", "predictor/bn1"},
          {"updater/model:main/predictor/conv1/W", {8, 3, 3, 3}, "weight", "predictor/conv1"},
          {"updater/model:main/predictor/conv1/b", {8}, "bias", "predictor/conv1"},
          {"updater/model:main/predictor/rnn/0/w0", {8, 8}, "weight", "predictor/rnn/0"},
          {"updater/optimizer:main/epoch", {}, "progress", ""},
          {"updater/optimizer:main/t", {}, "step", ""},
          {"updater/optimizer:main/predictor/conv1/W/t", {}, "step", "predictor/conv1"},
          {"updater/optimizer:main/predictor/conv1/W/v", {8, 3, 3, 3}, "momentum", "predictor/conv1"},
          {"updater/optimizer:main/predictor/conv1/b/m", {8}, "exp_avg", "predictor/conv1"},
          {"updater/optimizer:main/predictor/conv1/b/v", {8}, "exp_avg_sq", "predictor/conv1"},
          {"updater/optimizer:main/predictor/conv1/b/vhat", {8}, "unknown", ""}});
}

TEST(Outline, OfChainerLinksAndOptimizersAlone) {
  expect("chainer", {{"predictor/conv1/W", {8, 3}, "weight", "predictor/conv1"},
                     {"predictor/conv1/b", {8}, "bias", "predictor/conv1"},
                     {"predictor/conv1/extra", {8}, "unknown", "predictor/conv1"}});
  expect("chainer", {{"epoch", {}, "progress", ""},
                     {"t", {}, "step", ""},
                     {"predictor/conv1/W/m", {8, 3}, "exp_avg", "predictor/conv1"},
                     {"predictor/conv1/W/t", {}, "step", "predictor/conv1"},
                     {"predictor/conv1/W/v", {8, 3}, "exp_avg_sq", "predictor/conv1"}});
}

TEST(Outline, OfACaffeModelGoesByShapes) {
  expect("caffe", {{"data/bn1/0", {8}, "running_stat", "bn1"},
                   {"data/bn1/1", {8}, "running_stat", "bn1"},
                   {"data/bn1/2", {1}, "running_stat", "bn1"},
                   {"data/conv1/0", {8, 3, 5, 5}, "weight", "conv1"},
                   {"data/conv1/1", {8}, "bias", "conv1"},
                   {"data/fc/0", {1, 8}, "weight", "fc"},
                   {"data/fc/1", {1}, "bias", "fc"},
                   {"data/inception_3a/1x1/0", {4, 8, 1, 1}, "weight", "inception_3a/1x1"},
                   {"data/inception_3a/1x1/1", {1, 1, 1, 4}, "bias", "inception_3a/1x1"},
                   {"data/lstm/0", {32, 8}, "weight", "lstm"},
                   {"data/lstm/1", {32}, "bias", "lstm"},
                   {"data/lstm/2", {32, 8}, "weight", "lstm"},
                   {"data/prelu/0", {8}, "unknown", "prelu"},
                   {"data/scale1/0", {8}, "norm", "scale1"},
                   {"data/scale1/1", {8}, "norm", "scale1"},
                   {"diff/conv1/0", {8, 3, 5, 5}, "unknown", "conv1"}});
}

TEST(Outline, OfACaffeSolverTellsAdamByItsHalves) {
  expect("caffe", {{"current_step", {}, "progress", ""},
                   {"history/0", {8, 3}, "momentum", ""},
                   {"history/1", {8}, "momentum", ""},
                   {"iter", {}, "step", ""},
                   {"learned_net", {}, "unknown", ""}});
  expect("caffe", {{"history/0", {8, 3}, "exp_avg", ""},
                   {"history/1", {8}, "exp_avg", ""},
                   {"history/2", {8, 3}, "exp_avg_sq", ""},
                   {"history/3", {8}, "exp_avg_sq", ""},
                   {"iter", {}, "step", ""}});
}

// As Flax 0.12.8 (linen) and Optax 0.2.8 name them.
TEST(Outline, OfFlaxKnowsVariablesByTheirModule) {
  expect("flax", {{"batch_stats/BatchNorm_0/mean", {8}, "running_stat", "BatchNorm_0"},
                  {"batch_stats/BatchNorm_0/var", {8}, "running_stat", "BatchNorm_0"},
                  {"opt_state/1/0/count", {}, "step", ""},
                  {"opt_state/1/0/mu/BatchNorm_0/bias", {8}, "exp_avg", "BatchNorm_0"},
                  {"opt_state/1/0/mu/Block_0/Dense_0/kernel", {8, 4}, "exp_avg", "Block_0/Dense_0"},
                  {"opt_state/1/0/nu/Block_0/Dense_0/kernel", {8, 4}, "exp_avg_sq", "Block_0/Dense_0"},
                  {"params/BatchNorm_0/bias", {8}, "norm", "BatchNorm_0"},
                  {"params/BatchNorm_0/scale", {8}, "norm", "BatchNorm_0"},
                  {"params/Block_0/Dense_0/bias", {4}, "bias", "Block_0/Dense_0"},
                  {"params/Block_0/Dense_0/kernel", {8, 4}, "weight", "Block_0/Dense_0"},
                  {"params/Embed_0/embedding", {5, 8}, "weight", "Embed_0"},
                  {"params/SelfAttention_0/query/bias", {2, 4}, "bias", "SelfAttention_0/query"},
                  {"params/attention_norm/scale", {8}, "norm", "attention_norm"},
                  {"params/cls", {1, 1, 8}, "weight", ""},
                  {"params/other/scale", {8}, "unknown", "other"},
                  {"params/posembed_input/pos_embedding", {1, 9, 8}, "weight", "posembed_input"},
                  {"step", {}, "step", ""}});
}

// As Flax's NNX names them, with variables as groups, and with dots.
TEST(Outline, OfNnxNeedsNoCollections) {
  expect("flax", {{"bn/bias/value", {8}, "norm", "bn"},
                  {"bn/mean/value", {8}, "running_stat", "bn"},
                  {"bn/scale/value", {8}, "norm", "bn"},
                  {"bn/var/value", {8}, "running_stat", "bn"},
                  {"drop/rngs/count/value", {}, "rng", ""},
                  {"drop/rngs/key/value", {2}, "rng", ""},
                  {"lora/lora_a/value", {4, 2}, "weight", "lora"},
                  {"lstm/if_/kernel/value", {4, 4}, "weight", "lstm/if_"},
                  {"pr/negative_slope/value", {}, "weight", "pr"},
                  {"rms/scale/value", {8}, "norm", "rms"}});
  // nnx.state() of a model and its optimizer.
  expect("flax", {{"0/d/kernel", {8, 8}, "weight", "0/d"},
                  {"1/opt_state/0/mu/d/kernel", {8, 8}, "exp_avg", "d"},
                  {"1/step", {}, "step", ""}});
  expect("flax",
         {{"blocks.0.bias", {8}, "bias", "blocks.0"}, {"blocks.0.kernel", {8, 8}, "weight", "blocks.0"}});
}

TEST(Outline, OfOptaxSeesWrappersAndNothingThatLooksLikeAParameter) {
  const std::vector<Expected> model = {{"params/d/kernel", {2, 2}, "weight", "d"}};
  const auto with = [&](std::vector<Expected> state) {
    state.insert(state.end(), model.begin(), model.end());
    expect("flax", state);
  };
  with({{"opt_state/0/trace/d/kernel", {2, 2}, "momentum", "d"}});
  with({{"opt_state/hyperparams/learning_rate", {}, "progress", ""},
        {"opt_state/hyperparams/b1", {}, "unknown", ""},
        {"opt_state/inner_state/0/mu/d/kernel", {2, 2}, "exp_avg", "d"}});
  with({{"opt_state/inner_states/muon/inner_state/0/mu/d/kernel", {2, 2}, "exp_avg", "d"}});
  with({{"opt_state/mini_step", {}, "step", ""},
        {"opt_state/inner_opt_state/0/nu/d/kernel", {2, 2}, "exp_avg_sq", "d"},
        {"opt_state/acc_grads/d/kernel", {2, 2}, "unknown", ""}});
  // LBFGS keeps parameters; a module may be called mu.
  with({{"opt_state/0/params/d/kernel", {2, 2}, "unknown", ""},
        {"opt_state/0/v_row/mu/kernel", {2}, "unknown", ""},
        {"params/mu/kernel", {2, 2}, "weight", "mu"}});
  // The state alone, by jax.tree_util.keystr().
  expect("flax", {{"[0].count", {}, "step", ""},
                  {"[0].mu['a']['d']['bias']", {2}, "exp_avg", "a/d"},
                  {"[0].nu['a']['d']['kernel']", {2, 2}, "exp_avg_sq", "a/d"}});
}

TEST(Outline, OfOtherFilesIsUnknown) {
  expect("unknown", {{"data/images", {10, 28, 28}, "unknown", "data"}, {"labels", {10}, "unknown", ""}});
  expect("unknown", {{"dense/bias_of_data", {10, 28}, "unknown", "dense"}});
  expect("unknown", {{"data/0", {10}, "unknown", "data"}});
  expect("unknown", {{"epoch", {}, "progress", ""}, {"x/vars/a", {2}, "unknown", "x/vars"}});
  EXPECT_EQ(File({}).outline.layout, "unknown");
}

TEST(Outline, KeepsLargeNumbersInNamesApart) {
  const File file({{"a/vars/99999999999999999999999", {2}}, {"data/x/0", {2}}});
  EXPECT_EQ(file.outline.layout, "keras-v3");
  EXPECT_EQ(file.role("a/vars/99999999999999999999999"), "unknown");
  EXPECT_EQ(File({{"data/x/99999999999999999999999", {2}}}).role("data/x/99999999999999999999999"),
            "unknown");
}

}  // namespace
}  // namespace bitrift::ckpt::outline_test
