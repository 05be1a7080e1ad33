// Labelled images that are held in memory as bytes: IDX sets and the binary versions of CIFAR.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "dataset/torch.h"

namespace bitrift::nn {

/// Images and their labels.
struct Split {
  torch::Tensor images;  ///< uint8 [n, channels, height, width]
  torch::Tensor labels;  ///< int64 [n], 0 .. classes - 1
  [[nodiscard]] std::int64_t size() const { return labels.size(0); }
};

/// A training and a test set with images of one size.
struct LabelledImages {
  Split train, test;
  std::int64_t classes = 0;
};

/// Loads {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]. `classes` > 0: larger labels are refused, and the
/// error names file and record; 0: the largest training label + 1, at least 2. `hint` says how to get missing
/// files. Throws as read_idx does, and Error(bad_file) when counts, image sizes or labels do not fit each
/// other.
[[nodiscard]] LabelledImages load_idx_images(const std::filesystem::path& folder, std::int64_t classes,
                                             const std::string& hint);

/// Loads the binary version of CIFAR-10 (data_batch_1.bin to data_batch_5.bin, test_batch.bin: records of a
/// label and 3 x 32 x 32 bytes) or of CIFAR-100 (train.bin, test.bin: records of a coarse label, a fine
/// label, which is used, and the same bytes), from the folder or from the subfolder that the archive creates.
/// Source: Krizhevsky, "Learning multiple layers of features from tiny images", 2009, and the data set's
/// page. `classes` 0: 10 or 100. Throws Error(not_found) with the hint, and Error(bad_file) for a size that
/// is not a whole number of records and for a label out of range.
[[nodiscard]] LabelledImages load_cifar_images(const std::filesystem::path& folder, bool hundred,
                                               std::int64_t classes, const std::string& hint);

}  // namespace bitrift::nn
