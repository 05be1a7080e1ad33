#include "dataset/image_set.h"

#include <utility>

#include "core/error.h"

namespace bitrift::nn {
namespace {

std::int64_t channels_of(const record::DataSpec& spec, const LabelledImages& set) {
  const std::int64_t stored = set.train.images.size(1);
  if (spec.channels == 0 || spec.channels == stored) return stored;
  if (spec.channels == 3 && stored == 1) return 3;
  fail_at(ErrorCode::bad_input, "data.channels",
          "data.channels is {}, but the images of {} have {}: leave it out, or use {}", spec.channels,
          name_of(spec.name), stored, stored == 1 ? "1 or 3" : "3");
}

std::vector<std::int64_t> shape_of(const record::DataSpec& spec, const LabelledImages& set) {
  const auto side = [&](std::int64_t stored) { return spec.resize > 0 ? spec.resize : stored; };
  return {channels_of(spec, set), side(set.train.images.size(2)), side(set.train.images.size(3))};
}

}  // namespace

std::int64_t samples_taken(std::int64_t wanted, std::int64_t there, const char* key) {
  if (wanted > there)
    fail_at(ErrorCode::bad_input, key, "{} is {}, but there are only {}", key, wanted, there);
  return wanted > 0 ? wanted : there;
}

ImageSet::ImageSet(const record::DataSpec& spec, LabelledImages images)
    : Dataset({.train_size = samples_taken(spec.train_samples, images.train.size(), "data.train_samples"),
               .test_size = samples_taken(spec.test_samples, images.test.size(), "data.test_samples"),
               .input_shape = shape_of(spec, images),
               .classes = images.classes,
               .targets_per_sample = 1,
               .costly = spec.resize > 0 || spec.crop_padding > 0 || spec.flip}),
      spec_(spec),
      set_(std::move(images)),
      normalization_(spec.mean, spec.std, input_shape()[0]) {}

// The steps after the augmentation: channels and normalisation of float32 images.
torch::Tensor ImageSet::finished(torch::Tensor images) const {
  const std::int64_t channels = input_shape()[0];
  if (images.size(1) != channels) images = images.expand({-1, channels, -1, -1}).contiguous();
  normalization_.apply(images);
  return images;
}

Batch ImageSet::train_batch(std::span<const std::int64_t> rows, std::uint64_t seed,
                            std::int64_t epoch) const {
  check_rows(rows);
  const torch::Tensor index = torch::from_blob(const_cast<std::int64_t*>(rows.data()),
                                               {static_cast<std::int64_t>(rows.size())}, torch::kInt64);
  torch::Tensor images = set_.train.images.index_select(0, index);
  const auto augmented = [&](const torch::Tensor& plain) {
    if (spec_.crop_padding == 0 && !spec_.flip) return plain;
    return augment_images(plain, rows, AugmentDraws(seed, epoch), spec_.crop_padding, spec_.flip);
  };
  // Without resizing, bytes are moved before the conversion, which is a quarter of the work; the order makes
  // no difference to the result.
  if (spec_.resize == 0) images = augmented(images);
  images = images.to(torch::kFloat32).div_(255);
  if (spec_.resize > 0) images = augmented(resize_images(images, spec_.resize, spec_.resize));
  return {finished(std::move(images)), set_.train.labels.index_select(0, index)};
}

Batch ImageSet::test_batch(std::int64_t first, std::int64_t last) const {
  check_range(first, last);
  torch::Tensor images = set_.test.images.slice(0, first, last).to(torch::kFloat32).div_(255);
  if (spec_.resize > 0) images = resize_images(images, spec_.resize, spec_.resize);
  return {finished(std::move(images)), set_.test.labels.slice(0, first, last)};
}

}  // namespace bitrift::nn
