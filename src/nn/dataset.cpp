#include "nn/dataset.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace bitrift::nn {
namespace {

std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& stem,
                                const std::string& hint) {
  for (const char* ending : {"", ".gz"}) {
    std::filesystem::path path = folder / (stem + ending);
    if (std::filesystem::is_regular_file(path)) return path;
  }
  fail(ErrorCode::not_found, "{}[.gz] does not exist: {}", (folder / stem).string(), hint);
}

Split load_split(const std::filesystem::path& folder, const std::string& prefix, const std::string& hint) {
  const std::filesystem::path image_path = find_file(folder, prefix + "-images-idx3-ubyte", hint);
  const std::filesystem::path label_path = find_file(folder, prefix + "-labels-idx1-ubyte", hint);
  const IdxArray images = read_idx(image_path, 3);
  const IdxArray labels = read_idx(label_path, 1);
  if (images.shape[0] != labels.shape[0]) {
    fail(ErrorCode::bad_file, "{}: expected {} labels, one for each image of {}, found {}",
         label_path.string(), images.shape[0], image_path.filename().string(), labels.shape[0]);
  }
  Split split;
  split.images = torch::empty({images.shape[0], 1, images.shape[1], images.shape[2]}, torch::kUInt8);
  std::memcpy(split.images.data_ptr(), images.bytes.data(), images.bytes.size());
  split.labels = torch::empty({labels.shape[0]}, torch::kInt64);
  std::copy(labels.bytes.begin(), labels.bytes.end(), split.labels.data_ptr<std::int64_t>());
  return split;
}

}  // namespace

std::filesystem::path dataset_folder(const std::string& name, const std::string& path) {
  if (name == "idx") return path;
  if (name != "digits") fail(ErrorCode::bad_input, "there is no data set '{}': use digits or idx", name);
  const char* folder = std::getenv("BITRIFT_DATA_DIR");
  return std::filesystem::path(folder != nullptr && *folder != '\0' ? folder : BITRIFT_DATA_DIR) / "digits";
}

Dataset load_dataset(const std::string& name, const std::string& path) {
  const std::filesystem::path folder = dataset_folder(name, path);
  const std::string hint =
      name == "digits"
          ? "restore data/digits of the source tree, or set BITRIFT_DATA_DIR to the folder that holds digits/"
          : "put the four IDX files of the data set there (Fashion-MNIST: Debian package "
            "dataset-fashion-mnist), or correct data.path";
  Dataset dataset;
  dataset.train = load_split(folder, "train", hint);
  dataset.test = load_split(folder, "t10k", hint);
  if (dataset.train.images.sizes().slice(1) != dataset.test.images.sizes().slice(1)) {
    fail(ErrorCode::bad_file, "{}: expected test images of {}x{} pixels as in the training set, found {}x{}",
         folder.string(), dataset.train.images.size(2), dataset.train.images.size(3),
         dataset.test.images.size(2), dataset.test.images.size(3));
  }
  dataset.classes = std::max<std::int64_t>(2, dataset.train.labels.max().item<std::int64_t>() + 1);
  if (const auto top = dataset.test.labels.max().item<std::int64_t>(); top >= dataset.classes) {
    fail(ErrorCode::bad_file, "{}: expected test labels 0 to {} as in the training set, found {}",
         (folder / "t10k-labels-idx1-ubyte").string(), dataset.classes - 1, top);
  }
  return dataset;
}

torch::Tensor to_input(const torch::Tensor& images) { return images.to(torch::kFloat32).div_(255); }

}  // namespace bitrift::nn
