#include "sink/hdf5_image.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "h5/create.h"

namespace bitrift::ckpt {
namespace {

constexpr const char* kNames = "checksum/path";
constexpr const char* kSums = "checksum/crc32c";

void check_path(const std::string& path) {
  std::size_t start = 0;
  bool good = path.find('\0') == std::string::npos && !path.starts_with("checksum/");
  while (good && start <= path.size()) {
    const std::size_t slash = std::min(path.find('/', start), path.size());
    const std::string name = path.substr(start, slash - start);
    good = !name.empty() && name != "." && name != "..";
    start = slash + 1;
  }
  if (!good) fail(ErrorCode::bad_input, "\"{}\" cannot be the path of a tensor in a checkpoint", path);
}

/// Sorted by path; refuses doubles, paths that are also groups of others, formats that are not
/// little-endian, and those that HDF5 cannot describe.
std::vector<TensorMeta> checked(std::vector<TensorMeta> metas) {
  if (metas.empty()) fail(ErrorCode::bad_input, "a checkpoint needs at least one tensor");
  std::sort(metas.begin(), metas.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  std::set<std::string> groups;
  for (const TensorMeta& meta : metas) {
    check_path(meta.path);
    for (std::size_t slash = meta.path.find('/'); slash != std::string::npos;
         slash = meta.path.find('/', slash + 1)) {
      groups.insert(meta.path.substr(0, slash));
    }
    if (meta.format.order != ByteOrder::little) {
      fail(ErrorCode::bad_input, "{}: tensors are stored little-endian", meta.path);
    }
    if (meta.format.finite_only)
      fail(ErrorCode::bad_input, "{}: HDF5 has no type for {}", meta.path, meta.format.name());
  }
  for (std::size_t i = 0; i < metas.size(); ++i) {
    const std::string& path = metas[i].path;
    if (groups.contains(path) || path == "checksum") {
      fail(ErrorCode::bad_input, "{}: is both a tensor and a group", path);
    }
    if (i > 0 && metas[i - 1].path == path) fail(ErrorCode::bad_input, "{}: is given twice", path);
  }
  return metas;
}

std::size_t longest_path(const std::vector<TensorMeta>& metas) {
  std::size_t longest = 0;
  for (const TensorMeta& meta : metas) longest = std::max(longest, meta.path.size());
  return longest;
}

/// All datasets of the file in path order: the tensors and the two of the checksums.
std::vector<h5::NewDataset> datasets_of(const std::vector<TensorMeta>& metas) {
  std::vector<h5::NewDataset> all;
  all.reserve(metas.size() + 2);
  for (const TensorMeta& meta : metas) all.push_back({meta.path, meta.format, 0, meta.shape});
  all.push_back({kNames, std::nullopt, longest_path(metas), {metas.size()}});
  all.push_back({kSums, number_format("uint32"), 0, {metas.size()}});
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return all;
}

/// The content of the dataset kNames.
std::vector<std::uint8_t> padded_names(const std::vector<TensorMeta>& metas) {
  const std::size_t width = longest_path(metas);
  std::vector<std::uint8_t> names(width * metas.size());
  for (std::size_t i = 0; i < metas.size(); ++i)
    std::copy(metas[i].path.begin(), metas[i].path.end(),
              names.begin() + static_cast<std::ptrdiff_t>(i * width));
  return names;
}

/// The structures of HDF5. Its memory grows in steps, so that the head reaches into the elements.
std::vector<Image::Piece> structures(const h5::Blueprint& blueprint,
                                     const std::vector<h5::NewDataset>& datasets) {
  const std::vector<std::uint8_t>& head = blueprint.head;
  std::map<std::uint64_t, std::uint64_t> elements = {{head.size(), head.size()}};  // begin and end
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const std::uint64_t begin = blueprint.offsets[i];
    if (datasets[i].bytes() > 0 && begin < head.size()) elements[begin] = begin + datasets[i].bytes();
  }
  std::vector<Image::Piece> pieces;
  std::uint64_t at = 0;
  for (const auto& [begin, end] : elements) {
    if (at < begin) {
      pieces.push_back({at,
                        {head.begin() + static_cast<std::ptrdiff_t>(at),
                         head.begin() + static_cast<std::ptrdiff_t>(begin)}});
    }
    at = std::max(at, end);
  }
  return pieces;
}

}  // namespace

Image hdf5_image(std::vector<TensorMeta> metas, const std::map<std::string, std::string>& attributes) {
  metas = checked(std::move(metas));
  const std::vector<h5::NewDataset> datasets = datasets_of(metas);
  const h5::Blueprint blueprint = h5::lay_out(datasets, attributes);
  Image image;
  image.file_bytes = blueprint.file_bytes;
  image.pieces = structures(blueprint, datasets);
  std::uint64_t sums_at = 0;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const std::uint64_t offset = blueprint.offsets[i];
    if (datasets[i].path == kNames) {
      image.pieces.push_back({offset, padded_names(metas)});
    } else if (datasets[i].path == kSums) {
      sums_at = offset;
    } else {
      image.tensors.push_back({datasets[i].path, offset, datasets[i].bytes(), 0});
    }
  }
  for (std::size_t i = 0; i < image.tensors.size(); ++i) image.tensors[i].checksum_at = sums_at + 4 * i;
  return image;
}

}  // namespace bitrift::ckpt
