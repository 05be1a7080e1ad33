// The model and the data of a training spec, and how they are read and written.
#pragma once

#include "spec/part.h"

namespace bitrift::record {

/// Keys that the named model has no use for keep their defaults.
struct ModelSpec {
  std::string name;                                   ///< docs/training.md, "Models"
  std::vector<int> hidden = {};                       ///< mlp: widths of the hidden layers
  std::string norm = {};                              ///< mlp: "none" or "batch"
  bool small = false;                                 ///< vision models: width is "small", not "full"
  std::string stem = "imagenet";                      ///< resnet18, resnet50: imagenet | cifar
  bool auxiliary = true;                              ///< googlenet: auxiliary heads
  std::optional<double> dropout = {};                 ///< none: as published
  int classes = 0;                                    ///< outputs; 0: as many as the data has labels
  int layers = 0, heads = 0, width = 0, context = 0;  ///< gpt, bert
  bool operator==(const ModelSpec&) const = default;
  [[nodiscard]] bool is_transformer() const { return name == "gpt" || name == "bert"; }
};

/// The fields of nn::DataDescription that are not 0, and how many batches are prepared ahead.
struct DataSpec {
  std::string name;
  std::string path = {};
  int resize = 0, crop = 0, channels = 0, crop_padding = 0;
  std::vector<double> mean = {}, std = {};
  bool random_crop = false, flip = false;
  std::string vocabulary = {};
  double test_fraction = 0.1, mask_fraction = 0;
  std::int64_t train_samples = 0, test_samples = 0;
  std::optional<int> prefetch =
      {};  ///< batches prepared ahead on a thread; none: 2 where they take work, else 0
  bool operator==(const DataSpec&) const = default;
};

[[nodiscard]] ModelSpec read_model(const Part& part);
[[nodiscard]] DataSpec read_data(const Part& part, const ModelSpec& model);
[[nodiscard]] Json to_json(const ModelSpec& model);
[[nodiscard]] Json to_json(const DataSpec& data);
}  // namespace bitrift::record
