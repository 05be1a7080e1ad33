#include "dataset/load_dataset.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <string_view>
#include <utility>

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
  bool has_place;  // in the data folder, so that path may be left out
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
    {"digits", Kind::idx, true,
     "restore data/digits of the source tree, or set BITRIFT_DATA_DIR to the folder that holds digits/"},
    {"fashion-mnist", Kind::idx, true,
     "run tools/setup --with-data (Debian package dataset-fashion-mnist), or name the folder of its four IDX "
     "files "
     "with data.path"},
    {"mnist", Kind::idx, true,
     "put the four IDX files of MNIST there, or name the folder that holds them with data.path"},
    {"idx", Kind::idx, false,
     "put the four IDX files of the data set there (Fashion-MNIST: tools/setup --with-data and the name "
     "fashion-mnist), or correct data.path"},
    {"cifar10", Kind::cifar, true, cifar10_hint},
    {"cifar100", Kind::cifar, true, cifar100_hint},
    {"folder", Kind::folder, false,
     "put images there as train/CLASS/NAME.jpg and val/CLASS/NAME.jpg (or test/), or correct data.path"},
    {"jargon", Kind::text, true,
     "restore data/jargon of the source tree, or set BITRIFT_DATA_DIR to the folder that holds jargon/"},
    {"text", Kind::text, false, "correct data.path, which names a text file, plain or gzipped"},
}};

const Known& known_set(const std::string& name) {
  std::string names;
  for (const Known& known : known_sets) {
    if (known.name == name) return known;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  fail(ErrorCode::bad_input, "there is no data set '{}': use one of {}", name, names);
}

struct Key {
  const char* name;
  bool given;
};

void refuse_keys(const DataDescription& description, std::initializer_list<Key> keys, const char* whose) {
  for (const Key& key : keys) {
    if (key.given) {
      fail(ErrorCode::bad_input, "data.{} is for {}, not for {}: leave it out", key.name, whose,
           description.name);
    }
  }
}

void check_number(const char* key, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high)
    fail(ErrorCode::bad_input, "data.{} is {}: use {} to {}", key, value, low, high);
}

// What no kind of set takes, and keys that stand where they would do nothing.
void check_description(const DataDescription& d, Kind kind) {
  constexpr std::int64_t many = std::int64_t{1} << 40, side = 8192;
  check_number("resize", d.resize, 0, side);
  check_number("crop", d.crop, 0, side);
  check_number("crop_padding", d.crop_padding, 0, side);
  check_number("classes", d.classes, 0, std::int64_t{1} << 24);
  check_number("context", d.context, 0, std::int64_t{1} << 20);
  check_number("train_samples", d.train_samples, 0, many);
  check_number("test_samples", d.test_samples, 0, many);
  if (d.classes == 1) fail(ErrorCode::bad_input, "model.classes is 1: use at least 2");
  if (kind == Kind::text) {
    refuse_keys(d,
                {{"resize", d.resize != 0},
                 {"crop", d.crop != 0},
                 {"channels", d.channels != 0},
                 {"mean", !d.mean.empty()},
                 {"std", !d.std.empty()},
                 {"crop_padding", d.crop_padding != 0},
                 {"random_crop", d.random_crop},
                 {"flip", d.flip},
                 {"classes", d.classes != 0}},
                "images");
    if (d.context == 0)
      fail(ErrorCode::bad_input, "model.context is missing: set it to the number of tokens in a sample");
    if (!(d.test_fraction > 0 && d.test_fraction < 1)) {
      fail(ErrorCode::bad_input, "data.test_fraction is {}: use a number between 0 and 1", d.test_fraction);
    }
    if (!(d.mask_fraction >= 0 && d.mask_fraction < 1)) {
      fail_at(ErrorCode::bad_input, "data.mask_fraction",
              "data.mask_fraction is {}: use a number from 0 to below 1", d.mask_fraction);
    }
    return;
  }
  refuse_keys(d,
              {{"context", d.context != 0},
               {"vocabulary", !d.vocabulary.empty()},
               {"test_fraction", d.test_fraction != DataDescription().test_fraction},
               {"mask_fraction", d.mask_fraction != 0}},
              "text");
  if (d.channels != 0 && d.channels != 1 && d.channels != 3) {
    fail(ErrorCode::bad_input, "data.channels is {}: use 1 or 3", d.channels);
  }
  if (kind != Kind::folder) {
    refuse_keys(d, {{"crop", d.crop != 0}, {"random_crop", d.random_crop}},
                "folders of images (data.name folder)");
    return;
  }
  refuse_keys(d, {{"crop_padding", d.crop_padding != 0}},
              "sets whose images have one size (here: random_crop)");
  if (d.channels == 1)
    fail_at(ErrorCode::bad_input, "data.channels",
            "data.channels is 1, but folders are read in colour: use 3");
  if (d.crop == 0)
    fail(ErrorCode::bad_input, "data.crop is missing: set it to the side of an image in pixels");
  if (d.resize != 0 && d.resize < d.crop) {
    fail(ErrorCode::bad_input, "data.crop is {}, larger than data.resize {}: make it smaller", d.crop,
         d.resize);
  }
}

}  // namespace

std::filesystem::path dataset_folder(const DataDescription& description) {
  const Known& known = known_set(description.name);
  if (!description.path.empty()) return description.path;
  if (!known.has_place) {
    fail(ErrorCode::bad_input, "data.path is missing: the data set {} has no default folder", known.name);
  }
  const char* named = std::getenv("BITRIFT_DATA_DIR");
  const std::filesystem::path data = named != nullptr && *named != '\0' ? named : build_data;
  std::filesystem::path folder = data / known.name;
  if (known.name == "fashion-mnist" && !std::filesystem::exists(folder)) {
    return "/usr/share/datasets/fashion-mnist";  // of Debian's package dataset-fashion-mnist
  }
  return folder;
}

std::unique_ptr<Dataset> load_dataset(const DataDescription& description) {
  const Known& known = known_set(description.name);
  check_description(description, known.kind);
  const std::filesystem::path folder = dataset_folder(description);
  const std::string hint(known.hint);
  switch (known.kind) {
    case Kind::idx:
      return std::make_unique<ImageSet>(description, load_idx_images(folder, description.classes, hint));
    case Kind::cifar:
      return std::make_unique<ImageSet>(
          description, load_cifar_images(folder, known.name == "cifar100", description.classes, hint));
    case Kind::folder:
      return load_image_folder(description, folder, hint);
    case Kind::text:
      return load_text(description, known.name == "jargon" ? folder / "jargon.txt.gz" : folder, hint);
  }
  fail(ErrorCode::internal, "an unknown data set");
}

}  // namespace bitrift::nn
