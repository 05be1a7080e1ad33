#include "dataset/augment.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/philox.h"

namespace bitrift::nn {
namespace {

struct Plane {
  std::int64_t height, width;
};

// to[y][x] = from[y + down][x + right], or 0 if that is outside; then mirrored.
template <typename T>
void move_plane(const T* from, T* to, Plane size, std::int64_t down, std::int64_t right, bool mirrored) {
  const std::int64_t first = std::max<std::int64_t>(0, -right);
  const std::int64_t last = std::min(size.width, size.width - right);
  for (std::int64_t y = 0; y < size.height; ++y, to += size.width) {
    if (y + down >= 0 && y + down < size.height && first < last) {
      const T* row = from + (y + down) * size.width;
      std::copy(row + first + right, row + last + right, to + first);
    }
    if (mirrored) std::reverse(to, to + size.width);
  }
}

template <typename T>
torch::Tensor moved(const torch::Tensor& images, std::span<const std::int64_t> rows,
                    const AugmentDraws& draws, std::int64_t padding, bool flip) {
  torch::Tensor out = torch::zeros_like(images);
  const Plane size{images.size(2), images.size(3)};
  const std::int64_t area = size.height * size.width, channels = images.size(1), side = 2 * padding + 1;
  const T* from = images.data_ptr<T>();
  T* to = out.data_ptr<T>();
  for (const std::int64_t sample : rows) {
    const std::int64_t place = draws.crop(sample, side * side);
    const bool mirrored = flip && draws.flip(sample);
    for (std::int64_t c = 0; c < channels; ++c, from += area, to += area) {
      move_plane(from, to, size, place / side - padding, place % side - padding, mirrored);
    }
  }
  return out;
}

torch::Tensor channel_tensor(const std::vector<double>& values) {
  torch::Tensor tensor = torch::empty({1, static_cast<std::int64_t>(values.size()), 1, 1}, torch::kFloat32);
  std::transform(values.begin(), values.end(), tensor.data_ptr<float>(),
                 [](double value) { return static_cast<float>(value); });
  return tensor;
}

}  // namespace

AugmentDraws::AugmentDraws(std::uint64_t seed, std::int64_t epoch) noexcept
    : crop_key_(random_u64(derive_key(seed, "augment/crop"), static_cast<std::uint64_t>(epoch), 0)),
      flip_key_(random_u64(derive_key(seed, "augment/flip"), static_cast<std::uint64_t>(epoch), 0)) {}

std::int64_t AugmentDraws::crop(std::int64_t sample, std::int64_t places) const noexcept {
  return static_cast<std::int64_t>(
      random_below(crop_key_, static_cast<std::uint64_t>(sample), 0, static_cast<std::uint64_t>(places)));
}

bool AugmentDraws::flip(std::int64_t sample) const noexcept {
  return random_below(flip_key_, static_cast<std::uint64_t>(sample), 0, 2) == 1;
}

torch::Tensor augment_images(const torch::Tensor& images, std::span<const std::int64_t> rows,
                             const AugmentDraws& draws, std::int64_t padding, bool flip) {
  const torch::Tensor dense = images.contiguous();
  return dense.scalar_type() == torch::kUInt8 ? moved<std::uint8_t>(dense, rows, draws, padding, flip)
                                              : moved<float>(dense, rows, draws, padding, flip);
}

torch::Tensor resize_images(const torch::Tensor& images, std::int64_t height, std::int64_t width) {
  return at::_upsample_bilinear2d_aa(images, {height, width}, /*align_corners=*/false);
}

Normalization::Normalization(const std::vector<double>& mean, const std::vector<double>& std,
                             std::int64_t channels) {
  if (mean.empty() && std.empty()) return;
  const auto fits = [&](std::size_t size) {
    return size == 1 || static_cast<std::int64_t>(size) == channels;
  };
  if (!fits(mean.size()) || !fits(std.size())) {
    fail_at(ErrorCode::bad_input, mean.empty() ? "data.std" : "data.mean",
            "data.mean and data.std take one value each or {} (the channels): found {} and {}", channels,
            mean.size(), std.size());
  }
  for (const double value : std) {
    if (static_cast<float>(value) <= 0) {
      fail_at(ErrorCode::bad_input, "data.std", "data.std takes finite numbers above 0: found {}", value);
    }
  }
  mean_ = channel_tensor(mean);
  std_ = channel_tensor(std);
}

void Normalization::apply(torch::Tensor& images) const {
  if (mean_.defined()) images.sub_(mean_).div_(std_);
}

}  // namespace bitrift::nn
