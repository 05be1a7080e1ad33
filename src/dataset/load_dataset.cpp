#include "dataset/load_dataset.h"

#include <cstdlib>

#include "core/build_info.h"
#include "core/error.h"
#include "core/process/wheel_places.h"
#include "dataset/image_folder.h"
#include "dataset/image_set.h"
#include "dataset/labelled_images.h"
#include "dataset/text_set.h"

namespace bitrift::nn {
namespace {

// How to get a data set that is missing.
std::string hint_of(record::DataName name) {
  switch (name) {
    case record::DataName::digits:
    case record::DataName::jargon:
      return fmt::format(
          "restore data/{0} of the source tree, or set BITRIFT_DATA_DIR to the folder that holds {0}/",
          name_of(name));
    case record::DataName::fashion_mnist:
      return "run tools/setup --with-data (Debian package dataset-fashion-mnist), or name the folder of its "
             "four IDX files with data.path";
    case record::DataName::mnist:
      return "put the four IDX files of MNIST there, or name the folder that holds them with data.path";
    case record::DataName::idx:
      return "put the four IDX files of the data set there (Fashion-MNIST: tools/setup --with-data and the "
             "name fashion-mnist), or correct data.path";
    case record::DataName::cifar10:
    case record::DataName::cifar100:
      return fmt::format(
          "unpack cifar-{}-binary.tar.gz from the CIFAR page of the University of Toronto, and name its "
          "folder with data.path",
          name == record::DataName::cifar10 ? 10 : 100);
    case record::DataName::folder:
      return "put images there as train/CLASS/NAME.jpg and val/CLASS/NAME.jpg (or test/), or correct "
             "data.path";
    case record::DataName::text:
      return "correct data.path, which names a text file, plain or gzipped";
  }
  return "";
}

}  // namespace

std::filesystem::path dataset_folder(const record::DataSpec& spec) {
  if (!spec.path.empty()) return spec.path;
  const char* named = std::getenv("BITRIFT_DATA_DIR");
  const auto wheel = wheel_places();
  const std::filesystem::path shipped = wheel ? wheel->data : build_data;
  const std::filesystem::path data = named != nullptr && *named != '\0' ? named : shipped;
  std::filesystem::path folder = data / name_of(spec.name);
  if (spec.name == record::DataName::fashion_mnist && !std::filesystem::exists(folder)) {
    return "/usr/share/datasets/fashion-mnist";  // of Debian's package dataset-fashion-mnist
  }
  return folder;
}

std::unique_ptr<Dataset> load_dataset(const record::DataSpec& spec, const record::ModelSpec& model) {
  const std::filesystem::path folder = dataset_folder(spec);
  const std::string hint = hint_of(spec.name);
  switch (spec.name) {
    case record::DataName::digits:
    case record::DataName::fashion_mnist:
    case record::DataName::mnist:
    case record::DataName::idx:
      return std::make_unique<ImageSet>(spec, load_idx_images(folder, model.classes, hint));
    case record::DataName::cifar10:
      return std::make_unique<ImageSet>(spec, load_cifar_images(folder, false, model.classes, hint));
    case record::DataName::cifar100:
      return std::make_unique<ImageSet>(spec, load_cifar_images(folder, true, model.classes, hint));
    case record::DataName::folder:
      return load_image_folder(spec, model.classes, folder, hint);
    case record::DataName::jargon:
      return load_text(spec, model.context, folder / "jargon.txt.gz", hint);
    case record::DataName::text:
      return load_text(spec, model.context, folder, hint);
  }
  fail(ErrorCode::internal, "an unknown data set");
}

}  // namespace bitrift::nn
