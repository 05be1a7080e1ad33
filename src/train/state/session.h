// All mutable state of a run. Inside train/ only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ckpt/tensor.h"
#include "nn/layer/model.h"
#include "spec/training_spec.h"
#include "train/parallel/optimizer_shard.h"
#include "train/step/counters.h"
#include "train/step/optimizer.h"

namespace bitrift::train {

/// Throws Error(bad_file) for progress that no run can have: a negative or huge counter, a cursor that is
/// not at the start of one of the epoch's batches, more right answers than targets. Any learning rate is
/// accepted: it is state like any other. targets_per_sample: as nn::Dataset has it.
void check_progress(const Progress& progress, std::int64_t samples, const record::TrainingSpec& spec,
                    std::int64_t targets_per_sample);

/// One state tensor in its place.
struct StateTensor {
  ckpt::TensorMeta meta;
  void* number = nullptr;    ///< a scalar of the session; otherwise
  torch::Tensor value = {};  ///< a tensor, maybe on a device

  /// Contiguous little-endian bytes on the host, meta.bytes() of them (bitrift runs on no big-endian
  /// machine): the tensor's own memory if it is there. Valid during `use`.
  void read(const std::function<void(const void*)>& use) const;
  /// `fill` is given that many bytes to overwrite.
  void write(const std::function<void(void*)>& fill);
};

/// The state of one rank: its stage's parameters and buffers, their optimizer state (or its shard of that),
/// and what all ranks hold (seed and progress). Nothing else decides the future of a run, so loading into the
/// session resets the run.
class Session {
 public:
  Session(nn::Stage stage, const record::TrainingSpec& spec, OptimizerShard shard = {});

  [[nodiscard]] nn::Stage& stage() noexcept { return stage_; }
  [[nodiscard]] Optimizer& optimizer() noexcept { return optimizer_; }
  [[nodiscard]] const OptimizerShard& shard() const noexcept { return shard_; }
  /// The part of the optimizer's parameters that holds their state; empty where it is not sharded.
  [[nodiscard]] const std::vector<int>& owners() const noexcept { return owners_; }
  Progress progress;
  std::uint64_t seed = 0;

  /// Tensors of this rank, sorted by path. `shared`: with rng/ and progress/, which every rank holds. Valid
  /// until the optimizer makes or drops its state.
  [[nodiscard]] std::vector<StateTensor> tensors(bool shared = true);
  /// The contents of a file of the whole model, sorted by path.
  [[nodiscard]] std::vector<ckpt::TensorMeta> file_tensors(bool with_optimizer) const;
  /// The digest lines of tensors(shared).
  [[nodiscard]] std::vector<std::string> digest_lines(bool shared);
  /// Whether a floating-point value of this rank is NaN or infinite.
  [[nodiscard]] bool nonfinite();
  void drop_gradients();

 private:
  [[nodiscard]] std::vector<StateTensor> shared_tensors(Progress& where, std::uint64_t& number) const;
  [[nodiscard]] ckpt::TensorMeta model_meta(const nn::Slot& slot) const;

  record::OptimizerSpec optimizer_spec_;
  std::vector<std::string> optional_progress_;
  nn::Stage stage_;
  OptimizerShard shard_;
  std::vector<int> owners_;
  Optimizer optimizer_;
};

/// "path\tdtype\tshape\tdigest\n" of each (docs/checkpoint-format.md, "State digest").
[[nodiscard]] std::vector<std::string> digest_lines(const std::vector<StateTensor>& tensors);

/// Digest of the whole state from the lines of all parts, any order.
[[nodiscard]] std::string state_digest(std::vector<std::string> lines);

}  // namespace bitrift::train
