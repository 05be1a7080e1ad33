#include "sink/hdf5_image.h"

#include <algorithm>

#include "core/error.h"
#include "h5/create.h"
#include "sink/checksum_list.h"
#include "sink/tensor_list.h"

namespace bitrift::ckpt {
namespace {

void check_types(const std::vector<TensorMeta>& metas) {
  for (const TensorMeta& meta : metas) {
    if (meta.format.finite_only)
      fail(ErrorCode::bad_input, "{}: HDF5 has no type for {}", meta.path, meta.format.name());
  }
}

/// All datasets of the file in path order: the tensors and the two of the checksums.
std::vector<h5::NewDataset> datasets_of(const std::vector<TensorMeta>& metas, const ChecksumList& checksums) {
  std::vector<h5::NewDataset> all;
  all.reserve(metas.size() + 2);
  for (const TensorMeta& meta : metas) all.push_back({meta.path, meta.format, 0, meta.shape});
  all.push_back(checksums.names());
  all.push_back(checksums.sums());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return all;
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
  metas = checked_tensors(std::move(metas));
  check_types(metas);
  const ChecksumList checksums(metas);
  const std::vector<h5::NewDataset> datasets = datasets_of(metas, checksums);
  const h5::Blueprint blueprint = h5::lay_out(datasets, attributes);
  Image image;
  image.file_bytes = blueprint.file_bytes;
  image.checksum = Checksum::crc32c;
  image.pieces = structures(blueprint, datasets);
  std::uint64_t sums_at = 0;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const std::uint64_t offset = blueprint.offsets[i];
    if (datasets[i].path == checksums.names().path) {
      image.pieces.push_back({offset, checksums.padded_names()});
    } else if (datasets[i].path == checksums.sums().path) {
      sums_at = offset;
    } else {
      image.tensors.push_back({datasets[i].path, offset, datasets[i].bytes()});
    }
  }
  for (std::size_t i = 0; i < image.tensors.size(); ++i) image.tensors[i].checksums_at = {sums_at + 4 * i};
  return image;
}

}  // namespace bitrift::ckpt
