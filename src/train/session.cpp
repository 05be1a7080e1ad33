#include "train/session.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/ranges.h>

#include "core/digest.h"
#include "core/error.h"

namespace bitrift::train {
namespace {

// Room for every step that a run could ever take beyond it.
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

ckpt::TensorMeta model_meta(const nn::Slot& slot) {
  return meta("model/" + slot.key, slot.counter ? "int64" : "float32", unsigned_shape(slot.shape));
}

std::vector<Optimizer::Parameter> trained(const std::vector<nn::Slot>& slots) {
  std::vector<Optimizer::Parameter> parameters;
  for (const nn::Slot& slot : slots) {
    if (slot.trained) parameters.push_back({slot.key, slot.value});
  }
  return parameters;
}

template <typename Value>
bool any_nonfinite(const void* data, std::uint64_t count) {
  const auto* values = static_cast<const Value*>(data);
  return std::any_of(values, values + count, [](Value value) { return !std::isfinite(value); });
}

// Only the addresses in `data` depend on which session it is.
std::vector<StateTensor> shared_tensors(Progress& progress, std::uint64_t& seed) {
  return {{meta("progress/cursor", "int64"), &progress.cursor},
          {meta("progress/epoch", "int64"), &progress.epoch},
          {meta("progress/epoch_correct", "int64"), &progress.epoch_correct},
          {meta("progress/epoch_loss_sum", "float64"), &progress.epoch_loss_sum},
          {meta("progress/learning_rate", "float64"), &progress.learning_rate},
          {meta("progress/step", "int64"), &progress.step},
          {meta("rng/seed", "uint64"), &seed}};
}

}  // namespace

void check_progress(const Progress& progress, std::int64_t samples, std::int64_t batch_size) {
  check_counter("epoch", progress.epoch);
  check_counter("step", progress.step);
  const std::int64_t end = samples / batch_size * batch_size;
  if (progress.cursor < 0 || progress.cursor >= end || progress.cursor % batch_size != 0) {
    fail(ErrorCode::bad_file, "progress/cursor is {}: expected a multiple of the batch size {} from 0 to {}",
         progress.cursor, batch_size, end - batch_size);
  }
  if (progress.epoch_correct < 0 || progress.epoch_correct > progress.cursor) {
    fail(ErrorCode::bad_file, "progress/epoch_correct is {}: expected 0 to progress/cursor, which is {}",
         progress.epoch_correct, progress.cursor);
  }
}

Session::Session(nn::Stage stage, const record::TrainingSpec& spec)
    : optimizer_spec_(spec.optimizer),
      stage_(std::move(stage)),
      optimizer_(spec.optimizer, trained(stage_.slots())) {
  seed = spec.seed;
  progress.learning_rate = spec.optimizer.learning_rate;
}

std::vector<StateTensor> Session::tensors(bool shared) {
  std::vector<StateTensor> result;
  for (const nn::Slot& slot : stage_.slots()) result.push_back({model_meta(slot), slot.value.data_ptr()});
  for (const OptimizerSlot& slot : optimizer_.state()) {
    result.push_back(
        {meta("optimizer/" + slot.name + "/" + slot.key, "float32", unsigned_shape(slot.value.sizes().vec())),
         slot.value.data_ptr()});
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
      result.push_back(meta("optimizer/" + name + "/" + slot.key, "float32", shape));
    }
  }
  Progress any;
  std::uint64_t any_seed = 0;
  for (StateTensor& tensor : shared_tensors(any, any_seed)) result.push_back(std::move(tensor.meta));
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return result;
}

std::vector<std::string> Session::digest_lines(bool shared) {
  std::vector<std::string> lines;
  for (const StateTensor& tensor : tensors(shared)) {
    lines.push_back(fmt::format("{}\t{}\t{}\t{}\n", tensor.meta.path, tensor.meta.format.name(),
                                fmt::join(tensor.meta.shape, ","),
                                digest_bytes(tensor.data, tensor.meta.bytes())));
  }
  return lines;
}

bool Session::nonfinite() {
  for (const StateTensor& tensor : tensors()) {
    if (tensor.meta.format.kind != NumberKind::floating) continue;
    const bool bad = tensor.meta.format.bytes == 8
                         ? any_nonfinite<double>(tensor.data, tensor.meta.elements())
                         : any_nonfinite<float>(tensor.data, tensor.meta.elements());
    if (bad) return true;
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
