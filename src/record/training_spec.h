// What a training run is, as a user writes it (docs/spec.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "record/json.h"

namespace bitrift::record {

/// How the run is spread over ranks. Not part of a checkpoint: a file resumes under any other.
struct Parallel {
  std::string kind = "serial";  ///< serial | data | pipeline
  int ranks = 1;                ///< replicas (data) or stages (pipeline); 1 for serial
  int micro_batches =
      1;  ///< the batch of a replica is split into this many equal parts, gradients accumulated
  bool operator==(const Parallel&) const = default;
};

struct ModelSpec {
  std::string name;         ///< lenet | mlp
  std::vector<int> hidden;  ///< mlp: widths of the hidden layers
  std::string norm;         ///< mlp: "none" or "batch"
  bool operator==(const ModelSpec&) const = default;
};

struct DataSpec {
  std::string name;  ///< digits (shipped) | idx (a folder of four IDX files, plain or .gz)
  std::string path;  ///< idx: the folder
  bool operator==(const DataSpec&) const = default;
};

struct OptimizerSpec {
  std::string name;          ///< sgd | adam
  double learning_rate = 0;  ///< > 0
  double momentum = 0;       ///< sgd
  double weight_decay = 0;   ///< sgd: added to the gradient, as PyTorch does
  double beta1 = 0.9;        ///< adam
  double beta2 = 0.999;      ///< adam
  double epsilon = 1e-8;     ///< adam
  bool operator==(const OptimizerSpec&) const = default;
};

/// The part of a training that a checkpoint carries.
struct TrainingSpec {
  ModelSpec model;
  DataSpec data;
  OptimizerSpec optimizer;
  int batch_size = 0;      ///< global, over all replicas
  int epochs = 0;          ///< of the whole training
  std::uint64_t seed = 0;  ///< data order and initialisation
  int threads = 1;         ///< LibTorch threads per rank
  Parallel parallel;       ///< as written in the spec file; left out of checkpoints
};

/// Reads and checks a spec (schema "train", then the rules that a schema cannot say: batch divisible, ...).
/// Errors name file, line and key.
[[nodiscard]] TrainingSpec read_training_spec(const std::filesystem::path& path);
/// From a value inside a document (a campaign's base.train); pointer says where, for messages. The value is
/// expected to have passed the schema.
[[nodiscard]] TrainingSpec training_spec_from(const Document& document, const std::string& pointer);
/// From the canonical text that a checkpoint carries. Throws Error(bad_file).
[[nodiscard]] TrainingSpec training_spec_from_text(const std::string& text);
/// Canonical text: sorted keys, no white space, without `parallel`. Equal specs give equal bytes.
[[nodiscard]] std::string to_text(const TrainingSpec& spec);

/// Throws Error(bad_input) when a batch cannot be split over these ranks and micro-batches.
void check_parallel(const Parallel& parallel, int batch_size, const std::string& where);

[[nodiscard]] Json to_json(const Parallel& parallel);
[[nodiscard]] Parallel parallel_from_json(const Json& value);

}  // namespace bitrift::record
