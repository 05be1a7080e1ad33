#include "dataset/load_dataset.h"

#include <array>
#include <cstdlib>
#include <string_view>

#include "core/build_info.h"
#include "core/error.h"
#include "dataset/image_folder.h"
#include "dataset/image_set.h"
#include "dataset/labelled_images.h"
#include "dataset/text_set.h"

namespace bitrift::nn {
namespace {

enum class Kind { idx, cifar, folder, text };

struct Known {
  std::string_view name;
  Kind kind;
  std::string_view hint;
};

constexpr std::string_view cifar10_hint =
    "unpack cifar-10-binary.tar.gz from the CIFAR page of the University of Toronto, and name its folder "
    "with "
    "data.path";
constexpr std::string_view cifar100_hint =
    "unpack cifar-100-binary.tar.gz from the CIFAR page of the University of Toronto, and name its folder "
    "with "
    "data.path";
constexpr std::array<Known, 9> known_sets{{
    {"digits", Kind::idx,
     "restore data/digits of the source tree, or set BITRIFT_DATA_DIR to the folder that holds digits/"},
    {"fashion-mnist", Kind::idx,
     "run tools/setup --with-data (Debian package dataset-fashion-mnist), or name the folder of its four IDX "
     "files "
     "with data.path"},
    {"mnist", Kind::idx,
     "put the four IDX files of MNIST there, or name the folder that holds them with data.path"},
    {"idx", Kind::idx,
     "put the four IDX files of the data set there (Fashion-MNIST: tools/setup --with-data and the name "
     "fashion-mnist), or correct data.path"},
    {"cifar10", Kind::cifar, cifar10_hint},
    {"cifar100", Kind::cifar, cifar100_hint},
    {"folder", Kind::folder,
     "put images there as train/CLASS/NAME.jpg and val/CLASS/NAME.jpg (or test/), or correct data.path"},
    {"jargon", Kind::text,
     "restore data/jargon of the source tree, or set BITRIFT_DATA_DIR to the folder that holds jargon/"},
    {"text", Kind::text, "correct data.path, which names a text file, plain or gzipped"},
}};

const Known& known_set(const std::string& name) {
  std::string names;
  for (const Known& known : known_sets) {
    if (known.name == name) return known;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  fail(ErrorCode::bad_input, "there is no data set '{}': use one of {}", name, names);
}

}  // namespace

std::filesystem::path dataset_folder(const record::DataSpec& spec) {
  const Known& known = known_set(spec.name);
  if (!spec.path.empty()) return spec.path;
  const char* named = std::getenv("BITRIFT_DATA_DIR");
  const std::filesystem::path data = named != nullptr && *named != '\0' ? named : build_data;
  std::filesystem::path folder = data / known.name;
  if (known.name == "fashion-mnist" && !std::filesystem::exists(folder)) {
    return "/usr/share/datasets/fashion-mnist";  // of Debian's package dataset-fashion-mnist
  }
  return folder;
}

std::unique_ptr<Dataset> load_dataset(const record::DataSpec& spec, const record::ModelSpec& model) {
  const Known& known = known_set(spec.name);
  const std::filesystem::path folder = dataset_folder(spec);
  const std::string hint(known.hint);
  switch (known.kind) {
    case Kind::idx:
      return std::make_unique<ImageSet>(spec, load_idx_images(folder, model.classes, hint));
    case Kind::cifar:
      return std::make_unique<ImageSet>(
          spec, load_cifar_images(folder, known.name == "cifar100", model.classes, hint));
    case Kind::folder:
      return load_image_folder(spec, model.classes, folder, hint);
    case Kind::text:
      return load_text(spec, model.context, known.name == "jargon" ? folder / "jargon.txt.gz" : folder, hint);
  }
  fail(ErrorCode::internal, "an unknown data set");
}

}  // namespace bitrift::nn
