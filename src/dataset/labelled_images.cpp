#include "dataset/labelled_images.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "dataset/idx.h"

namespace bitrift::nn {
namespace {

std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& stem,
                                const std::string& hint) {
  for (const char* ending : {"", ".gz"}) {
    std::filesystem::path path = folder / (stem + ending);
    if (std::filesystem::is_regular_file(path)) return path;
  }
  fail_at(ErrorCode::not_found, "data.path", "{}[.gz] does not exist: {}", (folder / stem).string(), hint);
}

void check_labels(const Split& split, std::int64_t classes, const std::filesystem::path& path,
                  const char* as_what) {
  const std::int64_t* labels = split.labels.data_ptr<std::int64_t>();
  const std::int64_t* bad =
      std::find_if(labels, labels + split.size(), [&](std::int64_t label) { return label >= classes; });
  if (bad == labels + split.size()) return;
  fail_at(ErrorCode::bad_file, "model.classes", "{}: record {}: expected labels 0 to {} {}, found {}",
          path.string(), bad - labels, classes - 1, as_what, *bad);
}

Split load_idx_split(const std::filesystem::path& image_path, const std::filesystem::path& label_path) {
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

constexpr std::int64_t cifar_pixels = 3 * 32 * 32;

// Adds the records of one file to a set.
void read_cifar(const std::filesystem::path& path, bool hundred, std::int64_t classes,
                std::vector<std::uint8_t>& pixels, std::vector<std::int64_t>& labels) {
  const std::string content = read_text(path);
  const std::size_t label_bytes = hundred ? 2 : 1;
  const std::size_t record = label_bytes + cifar_pixels;
  if (content.empty() || content.size() % record != 0) {
    fail(ErrorCode::bad_file,
         "{}: expected a whole number of records of {} bytes, found {} bytes; get the file again",
         path.string(), record, content.size());
  }
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(content[at]); };
  for (std::size_t at = 0; at < content.size(); at += record) {
    if (hundred && byte(at) >= 20) {
      fail(ErrorCode::bad_file, "{}: record {}: expected coarse labels 0 to 19, found {}", path.string(),
           at / record, byte(at));
    }
    const std::uint8_t label = byte(at + label_bytes - 1);
    if (label >= classes) {
      fail(ErrorCode::bad_file, "{}: record {}: expected labels 0 to {}, found {}", path.string(),
           at / record, classes - 1, label);
    }
    labels.push_back(label);
    const auto* first = reinterpret_cast<const std::uint8_t*>(content.data()) + at + label_bytes;
    pixels.insert(pixels.end(), first, first + cifar_pixels);
  }
}

Split load_cifar_split(const std::vector<std::filesystem::path>& files, bool hundred, std::int64_t classes,
                       const std::string& hint) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int64_t> labels;
  std::uintmax_t total = 0;
  for (const auto& path : files) {
    if (!std::filesystem::is_regular_file(path)) {
      fail_at(ErrorCode::not_found, "data.path", "{} does not exist: {}", path.string(), hint);
    }
    total += std::filesystem::file_size(path);
  }
  pixels.reserve(total);
  for (const auto& path : files) read_cifar(path, hundred, classes, pixels, labels);
  Split split;
  const auto count = static_cast<std::int64_t>(labels.size());
  split.images = torch::empty({count, 3, 32, 32}, torch::kUInt8);
  std::memcpy(split.images.data_ptr(), pixels.data(), pixels.size());
  split.labels = torch::empty({count}, torch::kInt64);
  std::copy(labels.begin(), labels.end(), split.labels.data_ptr<std::int64_t>());
  return split;
}

}  // namespace

LabelledImages load_idx_images(const std::filesystem::path& folder, std::int64_t classes,
                               const std::string& hint) {
  const auto train_labels = find_file(folder, "train-labels-idx1-ubyte", hint);
  const auto test_labels = find_file(folder, "t10k-labels-idx1-ubyte", hint);
  LabelledImages set;
  set.train = load_idx_split(find_file(folder, "train-images-idx3-ubyte", hint), train_labels);
  set.test = load_idx_split(find_file(folder, "t10k-images-idx3-ubyte", hint), test_labels);
  if (set.train.images.sizes().slice(1) != set.test.images.sizes().slice(1)) {
    fail(ErrorCode::bad_file, "{}: expected test images of {}x{} pixels as in the training set, found {}x{}",
         folder.string(), set.train.images.size(2), set.train.images.size(3), set.test.images.size(2),
         set.test.images.size(3));
  }
  set.classes =
      classes > 0 ? classes : std::max<std::int64_t>(2, set.train.labels.max().item<std::int64_t>() + 1);
  check_labels(set.train, set.classes, train_labels, "as model.classes says");
  check_labels(set.test, set.classes, test_labels,
               classes > 0 ? "as model.classes says" : "as in the training set");
  return set;
}

LabelledImages load_cifar_images(const std::filesystem::path& folder, bool hundred, std::int64_t classes,
                                 const std::string& hint) {
  const std::filesystem::path unpacked = folder / (hundred ? "cifar-100-binary" : "cifar-10-batches-bin");
  const std::filesystem::path place = std::filesystem::is_directory(unpacked) ? unpacked : folder;
  std::vector<std::filesystem::path> files;
  if (hundred) {
    files = {place / "train.bin"};
  } else {
    for (const char number : {'1', '2', '3', '4', '5'}) {
      files.push_back(place / (std::string("data_batch_") + number + ".bin"));
    }
  }
  LabelledImages set;
  const std::int64_t known = hundred ? 100 : 10;
  set.classes = classes > 0 ? classes : known;
  const std::int64_t limit = std::min(set.classes, known);
  set.train = load_cifar_split(files, hundred, limit, hint);
  set.test = load_cifar_split({place / (hundred ? "test.bin" : "test_batch.bin")}, hundred, limit, hint);
  return set;
}

}  // namespace bitrift::nn
