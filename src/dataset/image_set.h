// A data set of images that are held in memory as bytes.
#pragma once

#include "dataset/augment.h"
#include "dataset/dataset.h"
#include "dataset/labelled_images.h"
#include "spec/training_parts.h"

namespace bitrift::nn {

/// Images as stored; each batch is brought to float32, resized, augmented and normalised on its own, so that
/// a resized set takes no more memory than its bytes.
class ImageSet : public Dataset {
 public:
  /// Throws Error(bad_input) for a spec that does not fit the images.
  ImageSet(const record::DataSpec& spec, LabelledImages images);

  [[nodiscard]] Batch train_batch(std::span<const std::int64_t> rows, std::uint64_t seed,
                                  std::int64_t epoch) const override;
  [[nodiscard]] Batch test_batch(std::int64_t first, std::int64_t last) const override;

 private:
  [[nodiscard]] torch::Tensor finished(torch::Tensor images) const;

  record::DataSpec spec_;
  LabelledImages set_;
  Normalization normalization_;
};

/// The number of samples of a split: `wanted`, or all `there` for 0. Throws Error(bad_input) that names the
/// key when there are fewer.
[[nodiscard]] std::int64_t samples_taken(std::int64_t wanted, std::int64_t there, const char* key);

}  // namespace bitrift::nn
