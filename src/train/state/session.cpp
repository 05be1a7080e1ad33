#include "train/state/session.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/ranges.h>

#include "core/digest.h"
#include "core/error.h"
#include "nn/layer/format_name.h"
#include "train/parallel/transfer.h"
#include "train/step/loss_scaler.h"
#include "train/step/schedule.h"

namespace bitrift::train {
namespace {

// Space for every step that a run could ever take beyond it.
constexpr std::int64_t largest_counter = std::numeric_limits<std::int64_t>::max() - (std::int64_t{1} << 32);

void check_counter(const char* name, std::int64_t value) {
  if (value < 0 || value > largest_counter) {
    fail(ErrorCode::bad_file, "progress/{} is {}: expected 0 to {}", name, value, largest_counter);
  }
}

std::vector<std::uint64_t> unsigned_shape(const std::vector<std::int64_t>& shape) {
  return {shape.begin(), shape.end()};
}

ckpt::TensorMeta meta(std::string path, const char* format, std::vector<std::uint64_t> shape = {}) {
  return {std::move(path), number_format(format).value(), std::move(shape)};
}

std::vector<Optimizer::Parameter> trained(const std::vector<nn::Slot>& slots) {
  std::vector<Optimizer::Parameter> parameters;
  for (const nn::Slot& slot : slots) {
    if (slot.trained) parameters.push_back({slot.key, slot.value});
  }
  return parameters;
}

std::vector<int> owners_of(const std::vector<nn::Slot>& slots, const OptimizerShard& shard) {
  if (!shard.sharded()) return {};
  std::vector<std::uint64_t> sizes;
  for (const nn::Slot& slot : slots) {
    if (slot.trained) sizes.push_back(slot.value.nbytes());
  }
  return spread_by_size(sizes, shard.parts);
}

std::vector<bool> held_by(int part, const std::vector<int>& owners) {
  std::vector<bool> held(owners.size());
  for (std::size_t i = 0; i < owners.size(); ++i) held[i] = owners[i] == part;
  return held;
}

// Names of progress/ that exist only when something uses them.
std::vector<std::string> optional_progress(const record::TrainingSpec& spec) {
  std::vector<std::string> names;
  if (spec.schedule.name == record::ScheduleName::cosine) names.emplace_back("base_learning_rate");
  if (spec.schedule.name == record::ScheduleName::plateau) {
    names.insert(names.end(), {"plateau_bad", "plateau_best", "plateau_cooldown"});
  }
  if (LossScaler(spec).active()) names.emplace_back("loss_scale");
  if (LossScaler(spec).dynamic()) names.emplace_back("growth_tracker");
  if (spec.guards.loss_spike > 0) names.insert(names.end(), {"guard_loss_count", "guard_loss_mean"});
  if (spec.guards.gradient_jump > 0)
    names.insert(names.end(), {"guard_gradient_count", "guard_gradient_mean"});
  return names;
}

// Without the temporaries and calls of torch::isfinite(), which cost more than small tensors.
bool any_nonfinite(const float* values, std::int64_t count) {
  constexpr std::uint32_t exponent = 0x7f800000;
  bool found = false;
  for (std::int64_t i = 0; i < count; ++i)
    found |= (std::bit_cast<std::uint32_t>(values[i]) & exponent) == exponent;
  return found;
}

}  // namespace

void check_progress(const Progress& progress, std::int64_t samples, const record::TrainingSpec& spec,
                    std::int64_t targets_per_sample) {
  check_counter("epoch", progress.epoch);
  check_counter("step", progress.step);
  const std::int64_t last = samples - spec.batch_size;  // samples at which a batch can begin
  if (progress.cursor < 0 || progress.cursor > last ||
      !record::steps_in_epoch(spec, progress.epoch, progress.cursor)) {
    fail(ErrorCode::bad_file, "progress/cursor is {}: expected a multiple of the batch size {} from 0 to {}",
         progress.cursor, spec.batch_size, last / spec.batch_size * spec.batch_size);
  }
  if (progress.epoch_correct < 0 || progress.epoch_correct > progress.cursor * targets_per_sample) {
    fail(ErrorCode::bad_file,
         "progress/epoch_correct is {}: expected 0 to {}, the targets of progress/cursor",
         progress.epoch_correct, progress.cursor * targets_per_sample);
  }
}

void StateTensor::read(const std::function<void(const void*)>& use) const {
  if (number != nullptr) {
    use(number);
    return;
  }
  const torch::Tensor host = host_copy(value);
  use(host.const_data_ptr());
}

void StateTensor::write(const std::function<void(void*)>& fill) {
  if (number != nullptr) {
    fill(number);
    return;
  }
  const torch::NoGradGuard no_grad;
  if (value.is_cpu() && value.is_contiguous()) {
    fill(value.data_ptr());
    return;
  }
  const torch::Tensor host = torch::empty(value.sizes(), value.scalar_type());
  fill(host.data_ptr());
  value.copy_(host);
}

Session::Session(nn::Stage stage, const record::TrainingSpec& spec, OptimizerShard shard)
    : optimizer_spec_(spec.optimizer),
      optional_progress_(optional_progress(spec)),
      stage_(std::move(stage)),
      shard_(shard),
      owners_(owners_of(stage_.slots(), shard)),
      optimizer_(spec.optimizer, trained(stage_.slots()), held_by(shard.part, owners_)) {
  seed = spec.seed;
  start_schedule(spec.schedule, spec.optimizer.learning_rate, progress);
  progress.loss_scale = LossScaler(spec).initial_scale();
}

std::vector<StateTensor> Session::shared_tensors(Progress& where, std::uint64_t& number) const {
  std::vector<StateTensor> all = {{meta("progress/cursor", "int64"), &where.cursor},
                                  {meta("progress/epoch", "int64"), &where.epoch},
                                  {meta("progress/epoch_correct", "int64"), &where.epoch_correct},
                                  {meta("progress/epoch_loss_sum", "float64"), &where.epoch_loss_sum},
                                  {meta("progress/learning_rate", "float64"), &where.learning_rate},
                                  {meta("progress/step", "int64"), &where.step},
                                  {meta("rng/seed", "uint64"), &number}};
  const std::map<std::string, StateTensor> more = {
      {"base_learning_rate", {meta("progress/base_learning_rate", "float64"), &where.base_learning_rate}},
      {"plateau_bad", {meta("progress/plateau_bad", "int64"), &where.plateau_bad}},
      {"plateau_best", {meta("progress/plateau_best", "float64"), &where.plateau_best}},
      {"plateau_cooldown", {meta("progress/plateau_cooldown", "int64"), &where.plateau_cooldown}},
      {"loss_scale", {meta("progress/loss_scale", "float64"), &where.loss_scale}},
      {"growth_tracker", {meta("progress/growth_tracker", "int64"), &where.growth_tracker}},
      {"guard_loss_count", {meta("progress/guard_loss_count", "int64"), &where.guard_losses.count}},
      {"guard_loss_mean", {meta("progress/guard_loss_mean", "float64"), &where.guard_losses.mean}},
      {"guard_gradient_count", {meta("progress/guard_gradient_count", "int64"), &where.guard_norms.count}},
      {"guard_gradient_mean", {meta("progress/guard_gradient_mean", "float64"), &where.guard_norms.mean}}};
  for (const std::string& name : optional_progress_) all.push_back(more.at(name));
  return all;
}

ckpt::TensorMeta Session::model_meta(const nn::Slot& slot) const {
  return meta("model/" + slot.key, slot.counter ? "int64" : nn::format_name(stage_.placement().dtype),
              unsigned_shape(slot.shape));
}

std::vector<StateTensor> Session::tensors(bool shared) {
  std::vector<StateTensor> result;
  for (const nn::Slot& slot : stage_.slots()) result.push_back({model_meta(slot), nullptr, slot.value});
  for (const OptimizerSlot& slot : optimizer_.state()) {
    result.push_back(
        {meta("optimizer/" + slot.name + "/" + slot.key, nn::format_name(slot.value.scalar_type()),
              unsigned_shape(slot.value.sizes().vec())),
         nullptr, slot.value});
  }
  if (shared) {
    for (StateTensor& tensor : shared_tensors(progress, seed)) result.push_back(std::move(tensor));
  }
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.meta.path < b.meta.path; });
  return result;
}

std::vector<ckpt::TensorMeta> Session::file_tensors(bool with_optimizer) const {
  std::vector<ckpt::TensorMeta> result;
  for (const nn::Slot& slot : stage_.all_slots()) {
    result.push_back(model_meta(slot));
    if (!with_optimizer || !slot.trained) continue;
    for (const auto& [name, scalar] : optimizer_slots(optimizer_spec_)) {
      const auto shape = scalar ? std::vector<std::uint64_t>{} : unsigned_shape(slot.shape);
      result.push_back(meta("optimizer/" + name + "/" + slot.key,
                            scalar ? "float32" : nn::format_name(stage_.placement().dtype), shape));
    }
  }
  Progress any;
  std::uint64_t any_seed = 0;
  for (StateTensor& tensor : shared_tensors(any, any_seed)) result.push_back(std::move(tensor.meta));
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return result;
}

std::vector<std::string> Session::digest_lines(bool shared) { return train::digest_lines(tensors(shared)); }

std::vector<std::string> digest_lines(const std::vector<StateTensor>& tensors) {
  std::vector<std::string> lines;
  for (const StateTensor& tensor : tensors) {
    tensor.read([&](const void* bytes) {
      lines.push_back(fmt::format("{}\t{}\t{}\t{}\n", tensor.meta.path, tensor.meta.format.name(),
                                  fmt::join(tensor.meta.shape, ","),
                                  digest_bytes(bytes, tensor.meta.bytes())));
    });
  }
  return lines;
}

bool Session::nonfinite() {
  constexpr std::int64_t finite_part = std::int64_t{1} << 20;  // elements
  const torch::NoGradGuard no_grad;
  for (const StateTensor& tensor : tensors()) {
    if (tensor.meta.format.kind != NumberKind::floating) continue;
    if (tensor.number != nullptr) {
      // The best value of a plateau schedule is infinite at first.
      if (tensor.meta.path == "progress/plateau_best") continue;
      if (!std::isfinite(*static_cast<const double*>(tensor.number))) return true;
      continue;
    }
    if (tensor.value.is_cpu() && tensor.value.scalar_type() == torch::kFloat32 &&
        tensor.value.is_contiguous()) {
      if (any_nonfinite(tensor.value.const_data_ptr<float>(), tensor.value.numel())) return true;
      continue;
    }
    // In parts, because isfinite() of a whole tensor would make temporaries of nearly twice its size.
    for (const torch::Tensor& part : tensor.value.detach().reshape({-1}).split(finite_part)) {
      if (!torch::isfinite(part).all().item<bool>()) return true;
    }
  }
  return false;
}

void Session::drop_gradients() {
  for (const Optimizer::Parameter& parameter : optimizer_.parameters())
    parameter.value.mutable_grad() = torch::Tensor();
}

std::string state_digest(std::vector<std::string> lines) {
  // A tab sorts before every character of a path, so sorting lines sorts paths.
  std::sort(lines.begin(), lines.end());
  const std::string text = fmt::format("{}", fmt::join(lines, ""));
  return digest_bytes(text.data(), text.size());
}

}  // namespace bitrift::train
