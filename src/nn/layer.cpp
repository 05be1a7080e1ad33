#include "nn/layer.h"

#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/philox.h"

namespace bitrift::nn {
namespace {

void fill_uniform(double* data, std::uint64_t count, std::uint64_t key, double bound) {
  for (std::uint64_t i = 0; i < count; ++i) data[i] = (2 * random_unit(key, i, 0) - 1) * bound;
}

// Box and Muller 1958; 1 - u lies in (0, 1], so the logarithm is finite.
void fill_normal(double* data, std::uint64_t count, std::uint64_t key, double deviation) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const double radius = std::sqrt(-2 * std::log(1 - random_unit(key, i, 0)));
    data[i] = radius * std::cos(2 * std::numbers::pi * random_unit(key, i, 1)) * deviation;
  }
}

torch::Tensor initial_value(const Slot& slot, std::uint64_t seed, torch::ScalarType dtype) {
  if (slot.init.kind == Init::Kind::constant) return torch::full(slot.shape, slot.init.scale, dtype);
  const torch::Tensor exact = torch::empty(slot.shape, torch::kFloat64);
  const std::uint64_t key = derive_key(seed, "init/" + slot.key);
  const auto count = static_cast<std::uint64_t>(exact.numel());
  if (slot.init.kind == Init::Kind::uniform) {
    fill_uniform(exact.data_ptr<double>(), count, key, slot.init.scale);
  } else {
    fill_normal(exact.data_ptr<double>(), count, key, slot.init.scale);
  }
  return exact.to(dtype);
}

}  // namespace

Init Init::fan_in(std::int64_t count) { return {Kind::uniform, 1 / std::sqrt(static_cast<double>(count))}; }

torch::Tensor Layer::auxiliary(const torch::Tensor&, const Pass&) {
  fail(ErrorCode::internal, "layer {} has no auxiliary head", name_);
}

void Layer::build(std::optional<std::uint64_t> seed, const Placement& placement) {
  for (Slot& slot : slots_) {
    if (slot.counter || !seed) {
      slot.value = torch::zeros(slot.shape, slot.counter ? torch::kInt64 : placement.dtype);
    } else {
      slot.value = initial_value(slot, *seed, placement.dtype);
    }
    slot.value = slot.value.to(placement.device);
    if (slot.trained) slot.value.requires_grad_(true);
  }
}

void Layer::release() noexcept {
  for (Slot& slot : slots_) slot.value = torch::Tensor();
}

}  // namespace bitrift::nn
