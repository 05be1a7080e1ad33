#include "nn/layer/layer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/philox.h"

namespace bitrift::nn {
namespace {

double uniform(std::uint64_t key, std::uint64_t i) { return 2 * random_unit(key, i, 0) - 1; }

// Box and Muller 1958; 1 - u lies in (0, 1], so the logarithm is finite.
double normal(std::uint64_t key, std::uint64_t i) {
  const double radius = std::sqrt(-2 * std::log(1 - random_unit(key, i, 0)));
  return radius * std::cos(2 * std::numbers::pi * random_unit(key, i, 1));
}

// In pieces, so that no second copy of a large tensor is held.
torch::Tensor initial_value(const Slot& slot, std::uint64_t seed, torch::ScalarType dtype) {
  if (slot.init.kind == Init::Kind::constant) return torch::full(slot.shape, slot.init.scale, dtype);
  constexpr std::int64_t piece = 1 << 16;
  const torch::Tensor value = torch::empty(slot.shape, dtype), flat = value.view({-1});
  const std::uint64_t key = derive_key(seed, "init/" + slot.key);
  std::vector<double> exact(static_cast<std::size_t>(std::min(piece, flat.numel())));
  for (std::int64_t first = 0; first < flat.numel(); first += piece) {
    const std::int64_t last = std::min(first + piece, flat.numel());
    for (std::int64_t i = first; i < last; ++i) {
      const auto index = static_cast<std::uint64_t>(i);
      const double draw = slot.init.kind == Init::Kind::uniform ? uniform(key, index) : normal(key, index);
      exact[static_cast<std::size_t>(i - first)] = draw * slot.init.scale;
    }
    flat.slice(0, first, last).copy_(torch::from_blob(exact.data(), {last - first}, torch::kFloat64));
  }
  return value;
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
