// The model and the data of a training spec: reading and writing.
#pragma once

#include "spec/part.h"

namespace bitrift::record {

/// The models (docs/training.md, "Models").
enum class ModelName {
  mlp,
  lenet,
  resnet20,
  resnet18,
  resnet50,
  alexnet,
  vgg16,
  vgg16_bn,
  googlenet,
  gpt,
  bert,
  llama,
};
constexpr EnumNames<12> names_of(ModelName) {
  return {"model",
          {"mlp", "lenet", "resnet20", "resnet18", "resnet50", "alexnet", "vgg16", "vgg16_bn", "googlenet",
           "gpt", "bert", "llama"}};
}

/// The layer after a hidden layer.
enum class Norm { none, batch };
constexpr EnumNames<2> names_of(Norm) { return {"normalisation", {"none", "batch"}}; }

/// The first layers of a ResNet: for photos, or for small images.
enum class Stem { imagenet, cifar };
constexpr EnumNames<2> names_of(Stem) { return {"stem", {"imagenet", "cifar"}}; }

/// Keys that the named model does not use keep their defaults.
struct ModelSpec {
  ModelName name = ModelName::mlp;
  std::vector<int> hidden = {};                       ///< mlp: widths of the hidden layers
  Norm norm = Norm::none;                             ///< mlp
  bool small = false;                                 ///< vision models: width is "small", not "full"
  Stem stem = Stem::imagenet;                         ///< resnet18, resnet50
  bool auxiliary = true;                              ///< googlenet: auxiliary heads
  std::optional<double> dropout = {};                 ///< none: as published
  int classes = 0;                                    ///< outputs; 0: as many as the data has labels
  int layers = 0, heads = 0, width = 0, context = 0;  ///< gpt, bert, llama
  int kv_heads = 0;                                   ///< llama; 0: as many as heads
  int feed_forward = 0;                               ///< llama: its inner width; 0: 8/3 of the width
  bool tied = false;                                  ///< llama: the head's matrix is the token embedding
  bool operator==(const ModelSpec&) const = default;
  [[nodiscard]] bool is_transformer() const {
    return name == ModelName::gpt || name == ModelName::bert || name == ModelName::llama;
  }
};

/// The data sets (docs/data.md).
enum class DataName { digits, fashion_mnist, mnist, idx, cifar10, cifar100, folder, jargon, text };
constexpr EnumNames<9> names_of(DataName) {
  return {"data set",
          {"digits", "fashion-mnist", "mnist", "idx", "cifar10", "cifar100", "folder", "jargon", "text"}};
}

/// A data set, and the preparation of its samples (docs/data.md says what each set accepts).
struct DataSpec {
  DataName name = DataName::digits;
  std::string path = {};          ///< the folder of the set; for text the file; "" if a default place is
                                  ///< known
  std::int64_t resize = 0;        ///< > 0: images to resize x resize pixels; folder: the shorter side
  std::int64_t crop = 0;          ///< folder, required: side of the square crop
  std::int64_t channels = 0;      ///< 0: as stored; 3: grey images are repeated; 1: grey images only
  std::vector<double> mean = {};  ///< (x / 255 - mean) / std, one value or one for each channel; both or none
  std::vector<double> std = {};
  std::int64_t crop_padding = 0;     ///< training: zeros on each side, then a crop of the original size
  bool random_crop = false;          ///< folder: training crops at a random place
  bool flip = false;                 ///< training: mirrored left-right with probability 1/2
  std::string vocabulary = {};       ///< text: "" for bytes, else a file with a token on each line
  double test_fraction = 0.1;        ///< text: the fraction at its end that is the test set
  double mask_fraction = 0;          ///< text: > 0: this fraction of each sample is masked and asked
  std::int64_t train_samples = 0;    ///< 0: all; else only the first ones, this many
  std::int64_t test_samples = 0;     ///< the same
  std::optional<int> prefetch = {};  ///< batches that a thread prepares ahead; none: 2 if costly, else 0
  bool operator==(const DataSpec&) const = default;
};

[[nodiscard]] ModelSpec read_model(const Part& part);
[[nodiscard]] DataSpec read_data(const Part& part, const ModelSpec& model);
[[nodiscard]] Json to_json(const ModelSpec& model);
[[nodiscard]] Json to_json(const DataSpec& data);
}  // namespace bitrift::record
