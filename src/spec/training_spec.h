// What a training run is, as a user writes it (docs/spec.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "record/json/json.h"
#include "spec/parallel.h"

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

struct OptimizerSpec {
  std::string name;          ///< sgd | adam | adamw
  double learning_rate = 0;  ///< > 0
  double momentum = 0;       ///< sgd
  bool nesterov = false;     ///< sgd with momentum
  double weight_decay = 0;   ///< sgd, adam: added to the gradient; adamw: decoupled, 0.01 by default
  double beta1 = 0.9;        ///< adam, adamw
  double beta2 = 0.999;      ///< adam, adamw
  double epsilon = 1e-8;     ///< adam, adamw
  double clip_norm = 0;      ///< > 0: gradients are scaled down to this total 2-norm
  bool operator==(const OptimizerSpec&) const = default;
  [[nodiscard]] bool is_adam() const { return name != "sgd"; }
};

/// How the learning rate moves (docs/training.md, "Schedules").
struct ScheduleSpec {
  std::string name = "constant";      ///< constant | step | cosine | plateau
  int every = 0;                      ///< step: epochs
  double gamma = 0.1;                 ///< step: factor
  std::int64_t warmup_steps = 0;      ///< cosine
  std::int64_t steps = 0;             ///< cosine: where it ends; 0: at the end of the spec's epochs
  double min_learning_rate = 0;       ///< cosine, plateau
  double factor = 0.1;                ///< plateau
  int patience = 10, cooldown = 0;    ///< plateau: evaluations
  double threshold = 1e-4;            ///< plateau: relative
  std::string monitor = "test_loss";  ///< plateau: test_loss | train_loss | test_accuracy
  bool operator==(const ScheduleSpec&) const = default;
};

/// Checks that a run makes of itself; all off (docs/training.md, "Guards").
struct GuardSpec {
  bool nonfinite = false;           ///< loss, and state after a step
  double loss_spike = 0;            ///< > 0: a loss beyond this many times the mean of the last losses
  double gradient_norm = 0;         ///< > 0: a larger total 2-norm of the gradients
  bool moment_bound = false;        ///< He et al., ISCA 2023: bound on the optimizer's first moment
  bool checksums = false;           ///< every tensor's CRC-32C when a file is loaded
  std::string on_alarm = "record";  ///< record | stop
  bool operator==(const GuardSpec&) const = default;
};

/// The part of a training that a checkpoint carries.
struct TrainingSpec {
  ModelSpec model;
  DataSpec data;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  GuardSpec guards;
  std::string precision = "fp32";    ///< fp32 | fp64 | bf16 | fp16 | autocast-bf16 | autocast-fp16
  std::optional<double> loss_scale;  ///< fixed; 0: dynamic; none: dynamic for the fp16 kinds, else off
  int batch_size = 0;                ///< global, over all replicas
  int epochs = 0;                    ///< of the whole training
  std::uint64_t seed = 0;            ///< data order and initialisation
  int threads = 1;                   ///< LibTorch threads per rank
  Parallel parallel;                 ///< as written in the spec file; left out of checkpoints

  /// Begins a message about a key ("model.name"): "spec.json:3: model.name". Of a spec that was not read from
  /// a document, just the key.
  [[nodiscard]] std::string where(const std::string& key) const;
  std::shared_ptr<const Document> origin;
  std::string origin_pointer;
};

[[nodiscard]] Json to_json(const GuardSpec& guards);

/// Reads and checks a spec (schema "train", then the rules that a schema cannot say: batch divisible, ...).
/// Errors name file, line and key.
[[nodiscard]] TrainingSpec read_training_spec(const std::filesystem::path& path);
/// From a value inside a document (a campaign's base.train); pointer says where, for messages. The value is
/// expected to have passed the schema.
[[nodiscard]] TrainingSpec training_spec_from(const Document& document, const std::string& pointer);
/// From the canonical text that a checkpoint carries; `source` names it in messages. Throws Error(bad_file).
[[nodiscard]] TrainingSpec training_spec_from_text(
    const std::string& text, const std::string& source = "the checkpoint's attribute 'spec'");
/// Canonical text: sorted keys, no white space, without `parallel`; keys that are newer than the format stand
/// there only when they differ from their defaults. Equal specs give equal bytes.
[[nodiscard]] std::string to_text(const TrainingSpec& spec);

}  // namespace bitrift::record
