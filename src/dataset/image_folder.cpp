#include "dataset/image_folder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "dataset/image_set.h"

namespace bitrift::nn {
namespace {

namespace fs = std::filesystem;

bool hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

bool named_as_image(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

fs::directory_iterator open_folder(const fs::path& folder) {
  std::error_code code;
  fs::directory_iterator entries(folder, code);
  if (code) fail(ErrorCode::io, "{}: cannot be listed: {}", folder.string(), code.message());
  return entries;
}

std::vector<std::string> list_classes(const fs::path& folder) {
  std::vector<std::string> classes;
  for (const fs::directory_entry& entry : open_folder(folder)) {
    if (!hidden(entry.path()) && entry.is_directory()) classes.push_back(entry.path().filename().string());
  }
  std::sort(classes.begin(), classes.end());
  if (classes.empty()) {
    fail(ErrorCode::bad_file, "{}: expected a folder of images for each class, found none", folder.string());
  }
  return classes;
}

ImageFolder::Listing list_split(const fs::path& folder) {
  ImageFolder::Listing split{folder, list_classes(folder), {}};
  for (std::size_t label = 0; label < split.classes.size(); ++label) {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : open_folder(folder / split.classes[label])) {
      if (hidden(entry.path())) continue;
      if (!named_as_image(entry.path())) {
        fail(ErrorCode::bad_file, "{}: expected images (.jpg, .jpeg, .png) only: remove it",
             entry.path().string());
      }
      names.push_back(entry.path().filename().string());
    }
    if (names.empty()) {
      fail(ErrorCode::bad_file, "{}: expected images of this class, found none",
           (folder / split.classes[label]).string());
    }
    std::sort(names.begin(), names.end());
    for (std::string& name : names)
      split.images.push_back({static_cast<std::int64_t>(label), std::move(name)});
  }
  return split;
}

// The size after the shorter side was resized to `resize`; the longer one as in torchvision's Resize.
ImageSize resized(ImageSize size, std::int64_t resize) {
  if (resize == 0) return size;
  if (size.width <= size.height) return {resize, resize * size.height / size.width};
  return {resize * size.width / size.height, resize};
}

void check_images(const ImageFolder::Listing& split, std::int64_t count, const record::DataSpec& spec) {
  for (std::int64_t i = 0; i < count; ++i) {
    const fs::path path = split.path(i);
    const ImageSize size = resized(check_image_header(path), spec.resize);
    check_image_size(size, path.string());
    if (std::min(size.width, size.height) < spec.crop) {
      fail_at(ErrorCode::bad_input, "data.crop",
              "{}: an image of {} x {} pixels is too small for data.crop {}: set data.resize", path.string(),
              size.width, size.height, spec.crop);
    }
  }
}

void check_classes(const ImageFolder::Listing& train, const ImageFolder::Listing& test) {
  std::vector<std::string> odd;
  std::set_symmetric_difference(train.classes.begin(), train.classes.end(), test.classes.begin(),
                                test.classes.end(), std::back_inserter(odd));
  if (odd.empty()) return;
  const bool in_train = std::binary_search(train.classes.begin(), train.classes.end(), odd.front());
  fail(ErrorCode::bad_file, "{}: expected the classes of {}, found class {} in only one of them",
       (in_train ? test : train).folder.string(), (in_train ? train : test).folder.string(), odd.front());
}

// Halves are rounded to even, as in torchvision's CenterCrop.
std::int64_t centre(std::int64_t spare) { return spare / 2 + (spare % 2 != 0 && spare / 2 % 2 != 0 ? 1 : 0); }

torch::Tensor cut(const torch::Tensor& picture, std::int64_t top, std::int64_t left, std::int64_t side) {
  return picture.narrow(1, top, side).narrow(2, left, side);
}

std::int64_t counted_classes(std::int64_t wanted, const ImageFolder::Listing& train) {
  const auto found = static_cast<std::int64_t>(train.classes.size());
  if (wanted > 0 && found > wanted) {
    fail_at(ErrorCode::bad_file, "model.classes",
            "{}: expected at most {} classes, as model.classes says, found {}", train.folder.string(), wanted,
            found);
  }
  return std::max(wanted, std::max<std::int64_t>(found, 2));
}

}  // namespace

std::filesystem::path ImageFolder::Listing::path(std::int64_t index) const {
  const Image& image = images[static_cast<std::size_t>(index)];
  return folder / classes[static_cast<std::size_t>(image.label)] / image.name;
}

ImageFolder::ImageFolder(const record::DataSpec& spec, std::int64_t classes, Listing train, Listing test)
    : Dataset(
          {.train_size = samples_taken(spec.train_samples, std::ssize(train.images), "data.train_samples"),
           .test_size = samples_taken(spec.test_samples, std::ssize(test.images), "data.test_samples"),
           .input_shape = {3, spec.crop, spec.crop},
           .classes = counted_classes(classes, train),
           .targets_per_sample = 1,
           .costly = true}),
      spec_(spec),
      train_(std::move(train)),
      test_(std::move(test)),
      normalization_(spec.mean, spec.std, 3) {
  check_images(train_, train_size(), spec_);
  check_images(test_, test_size(), spec_);
}

// float32 [3, height, width], resized.
torch::Tensor ImageFolder::picture(const Listing& split, std::int64_t index) const {
  const std::filesystem::path path = split.path(index);
  Pixels pixels = decode_image(path);
  const ImageSize size = resized(pixels.size, spec_.resize);
  check_image_size(size, path.string());
  if (std::min(size.width, size.height) < spec_.crop) {
    fail(ErrorCode::bad_file, "{}: the image has changed since the data set was loaded: start again",
         path.string());
  }
  const torch::Tensor bytes =
      torch::from_blob(pixels.rgb.data(), {pixels.size.height, pixels.size.width, 3}, torch::kUInt8);
  const torch::Tensor floats =
      bytes.permute({2, 0, 1}).to(torch::kFloat32).contiguous(torch::MemoryFormat::Contiguous).div_(255);
  if (spec_.resize == 0) return floats;
  return resize_images(floats.unsqueeze(0), size.height, size.width).squeeze(0);
}

torch::Tensor ImageFolder::middle(const torch::Tensor& picture) const {
  return cut(picture, centre(picture.size(1) - spec_.crop), centre(picture.size(2) - spec_.crop), spec_.crop);
}

Batch ImageFolder::train_batch(std::span<const std::int64_t> rows, std::uint64_t seed,
                               std::int64_t epoch) const {
  check_rows(rows);
  const AugmentDraws draws(seed, epoch);
  const std::int64_t side = spec_.crop;
  const auto count = static_cast<std::int64_t>(rows.size());
  Batch batch{torch::empty({count, 3, side, side}, torch::kFloat32), torch::empty({count}, torch::kInt64)};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t sample = rows[static_cast<std::size_t>(i)];
    const torch::Tensor whole = picture(train_, sample);
    torch::Tensor image;
    if (spec_.random_crop) {
      const std::int64_t columns = whole.size(2) - side + 1;
      const std::int64_t place = draws.crop(sample, (whole.size(1) - side + 1) * columns);
      image = cut(whole, place / columns, place % columns, side);
    } else {
      image = middle(whole);
    }
    if (spec_.flip && draws.flip(sample)) image = image.flip({2});
    batch.inputs[i].copy_(image);
    batch.targets.data_ptr<std::int64_t>()[i] = train_.images[static_cast<std::size_t>(sample)].label;
  }
  normalization_.apply(batch.inputs);
  return batch;
}

Batch ImageFolder::test_batch(std::int64_t first, std::int64_t last) const {
  check_range(first, last);
  const std::int64_t side = spec_.crop;
  Batch batch{torch::empty({last - first, 3, side, side}, torch::kFloat32),
              torch::empty({last - first}, torch::kInt64)};
  for (std::int64_t i = 0; i < last - first; ++i) {
    batch.inputs[i].copy_(middle(picture(test_, first + i)));
    batch.targets.data_ptr<std::int64_t>()[i] = test_.images[static_cast<std::size_t>(first + i)].label;
  }
  normalization_.apply(batch.inputs);
  return batch;
}

std::unique_ptr<Dataset> load_image_folder(const record::DataSpec& spec, std::int64_t classes,
                                           const fs::path& folder, const std::string& hint) {
  if (spec.channels == 1) {
    fail_at(ErrorCode::bad_input, "data.channels",
            "data.channels is 1, but folders are read in colour: use 3");
  }
  const fs::path train = folder / "train";
  const fs::path test = folder / (fs::is_directory(folder / "val") ? "val" : "test");
  for (const fs::path& split : {train, test}) {
    if (!fs::is_directory(split)) {
      fail_at(ErrorCode::not_found, "data.path", "{} does not exist: {}", split.string(), hint);
    }
  }
  ImageFolder::Listing train_listing = list_split(train), test_listing = list_split(test);
  check_classes(train_listing, test_listing);
  return std::make_unique<ImageFolder>(spec, classes, std::move(train_listing), std::move(test_listing));
}

}  // namespace bitrift::nn
