// A data set of JPEG and PNG files in folders by class, decoded when a batch asks for them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dataset/augment.h"
#include "dataset/dataset.h"
#include "dataset/image/image_file.h"
#include "spec/training_parts.h"

namespace bitrift::nn {

/// PATH/train/CLASS/NAME and PATH/val/CLASS/NAME (or test/): labels are the classes by sorted name (bytes),
/// the same in both; samples are sorted by class, then name. Holds names and sizes, but no pixels.
class ImageFolder : public Dataset {
 public:
  struct Image {
    std::int64_t label = 0;
    std::string name;
  };
  struct Listing {
    std::filesystem::path folder;
    std::vector<std::string> classes;
    std::vector<Image> images;
    [[nodiscard]] std::filesystem::path path(std::int64_t index) const;
  };
  /// classes: 0: counted; otherwise a larger number of them is refused.
  ImageFolder(const record::DataSpec& spec, std::int64_t classes, Listing train, Listing test);

  [[nodiscard]] Batch train_batch(std::span<const std::int64_t> rows, std::uint64_t seed,
                                  std::int64_t epoch) const override;
  [[nodiscard]] Batch test_batch(std::int64_t first, std::int64_t last) const override;

 private:
  [[nodiscard]] torch::Tensor picture(const Listing& split, std::int64_t index) const;
  [[nodiscard]] torch::Tensor middle(const torch::Tensor& picture) const;

  record::DataSpec spec_;
  Listing train_, test_;
  Normalization normalization_;
};

/// Lists both splits and checks the header of every image that is used. Throws Error(not_found) with the
/// hint, and Error(bad_file | unsupported | bad_input) that names the folder or file: an empty or unknown
/// class, a file that is not an image, one that is too small for the crop.
[[nodiscard]] std::unique_ptr<Dataset> load_image_folder(const record::DataSpec& spec, std::int64_t classes,
                                                         const std::filesystem::path& folder,
                                                         const std::string& hint);

}  // namespace bitrift::nn
