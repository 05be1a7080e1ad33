// Labelled images from IDX files, the format of MNIST (http://yann.lecun.com/exdb/mnist), plain or gzipped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <torch/torch.h>

namespace bitrift::nn {

/// An array of bytes with a shape.
struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;
};

/// Reads an IDX file of unsigned bytes with the given number of dimensions. A file that starts with gzip's
/// magic is inflated. Throws Error(not_found | io), and Error(bad_file) that names the file, what was
/// expected and what was found: another magic, truncated, bytes after the end, a dimension of 0, damaged
/// gzip.
[[nodiscard]] IdxArray read_idx(const std::filesystem::path& path, int dimensions);

/// Images and labels that belong together.
struct Split {
  torch::Tensor images;  ///< uint8 [n, 1, height, width]
  torch::Tensor labels;  ///< int64 [n], 0 .. classes - 1
  [[nodiscard]] std::int64_t size() const { return labels.size(0); }
};

struct Dataset {
  Split train, test;
  std::int64_t classes = 0;  ///< largest training label + 1, at least 2
  [[nodiscard]] std::vector<std::int64_t> image_shape() const { return train.images.sizes().slice(1).vec(); }
};

/// Where a data set by name lies: digits is DIR/digits with DIR from the environment variable
/// BITRIFT_DATA_DIR, else the data/ folder of the source tree; idx is `path`. Throws Error(bad_input) for
/// another name.
[[nodiscard]] std::filesystem::path dataset_folder(const std::string& name, const std::string& path);

/// Loads {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]. Throws as read_idx does, and Error(bad_file) when
/// counts, image sizes or labels do not fit each other; Error(not_found) says how to get the data.
[[nodiscard]] Dataset load_dataset(const std::string& name, const std::string& path);

/// Pixels as the models take them: float32, divided by 255.
[[nodiscard]] torch::Tensor to_input(const torch::Tensor& images);

}  // namespace bitrift::nn
