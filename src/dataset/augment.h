// Augmentation of training images, and the conversion of pixels for the models.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataset/torch.h"

namespace bitrift::nn {

/// The draws for one epoch: pure functions of (seed, epoch, sample index), nothing else (docs/data.md).
class AugmentDraws {
 public:
  AugmentDraws(std::uint64_t seed, std::int64_t epoch) noexcept;
  /// The index of one of `places` >= 1 crops, 0 .. places - 1.
  [[nodiscard]] std::int64_t crop(std::int64_t sample, std::int64_t places) const noexcept;
  [[nodiscard]] bool flip(std::int64_t sample) const noexcept;

 private:
  std::uint64_t crop_key_, flip_key_;
};

/// Images [rows, channels, height, width] of uint8 or float32, each zero-padded by `padding` pixels, cropped
/// to its size at the place drawn for its sample, and mirrored when `flip` and its draw say so.
/// rows[i] is the sample index of image i.
[[nodiscard]] torch::Tensor augment_images(const torch::Tensor& images, std::span<const std::int64_t> rows,
                                           const AugmentDraws& draws, std::int64_t padding, bool flip);

/// Images resized to height x width as by torch.nn.functional.interpolate with mode="bilinear",
/// antialias=True; float32 [rows, channels, ...].
[[nodiscard]] torch::Tensor resize_images(const torch::Tensor& images, std::int64_t height,
                                          std::int64_t width);

/// (x - mean) / std in float32 for each channel, as in torchvision's Normalize; does nothing when both are
/// empty.
class Normalization {
 public:
  /// One value, or one for each of `channels`; both or none. Throws Error(bad_input).
  Normalization(const std::vector<double>& mean, const std::vector<double>& std, std::int64_t channels);
  /// In place; images are float32 [rows, channels, height, width].
  void apply(torch::Tensor& images) const;

 private:
  torch::Tensor mean_, std_;
};

}  // namespace bitrift::nn
