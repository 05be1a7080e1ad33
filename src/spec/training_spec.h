// A training run as a user writes it (docs/spec.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "record/json/json.h"
#include "spec/checkpoint_policy.h"
#include "spec/optimizer_parts.h"
#include "spec/parallel.h"
#include "spec/training_parts.h"

namespace bitrift::record {

/// The precision of parameters and arithmetic; autocast keeps fp32 parameters.
enum class Precision { fp32, fp64, bf16, fp16, autocast_bf16, autocast_fp16 };
constexpr EnumNames<6> names_of(Precision) {
  return {"precision", {"fp32", "fp64", "bf16", "fp16", "autocast-bf16", "autocast-fp16"}};
}

/// A batch became smaller during the run, because a rank was lost (docs/rank-failure.md, "A smaller batch").
struct Resize {
  int before = 0;           ///< batch size until then
  std::int64_t epoch = 0;   ///< epochs completed when it changed
  std::int64_t cursor = 0;  ///< samples of the epoch that had been consumed
  bool operator==(const Resize&) const = default;
};

/// The part of a training that a checkpoint carries.
struct TrainingSpec {
  ModelSpec model;
  DataSpec data;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  GuardSpec guards;
  Precision precision = Precision::fp32;
  std::optional<double> loss_scale;  ///< fixed; 0: dynamic; none: dynamic for the fp16 kinds, else off
  int batch_size = 0;                ///< global, over all replicas
  int epochs = 0;                    ///< of the whole training
  std::uint64_t seed = 0;            ///< data order and initialisation
  int threads = 1;                   ///< LibTorch threads per rank
  std::vector<Resize> resized;       ///< in order; written by bitrift-train
  Parallel parallel;                 ///< as written in the spec file; left out of checkpoints
  CheckpointPolicy checkpoint;       ///< the same

  /// Begins a message about a key ("model.name"): "spec.json:3: model.name". Only the key for a spec that was
  /// not read from a document.
  [[nodiscard]] std::string where(const std::string& key) const;
  /// Whether the document has this key.
  [[nodiscard]] bool has(const std::string& key) const;
  std::shared_ptr<const Document> origin;
  std::string origin_pointer;

 private:
  [[nodiscard]] std::string pointer_to(std::string key) const;
};

/// The steps of an epoch after its first `cursor` samples; nullopt where no step ends there.
[[nodiscard]] std::optional<std::int64_t> steps_in_epoch(const TrainingSpec& spec, std::int64_t epoch,
                                                         std::int64_t cursor);

/// Reads and checks a spec (schema "train", then the rules that a schema cannot express: batch divisible,
/// ...). Errors name file, line and key.
[[nodiscard]] TrainingSpec read_training_spec(const std::filesystem::path& path);
/// Reads a value inside a document (a campaign's base.train); pointer says where, for messages. The value is
/// expected to have passed the schema.
[[nodiscard]] TrainingSpec training_spec_from(const Document& document, const std::string& pointer);
/// Reads the canonical text in a checkpoint; `source` names it in messages. Throws Error(bad_file).
[[nodiscard]] TrainingSpec training_spec_from_text(
    const std::string& text, const std::string& source = "the checkpoint's attribute 'spec'");
/// Canonical text: sorted keys, no white space, without `checkpoint` and `parallel`. Keys that were added
/// later are written only if they differ from their defaults. Equal specs give equal bytes.
[[nodiscard]] std::string to_text(const TrainingSpec& spec);

}  // namespace bitrift::record
