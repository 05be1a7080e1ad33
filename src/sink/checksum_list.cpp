#include "sink/checksum_list.h"

#include <algorithm>

#include "core/number/number_format.h"

namespace bitrift::ckpt {

ChecksumList::ChecksumList(const std::vector<TensorMeta>& metas) : metas_(metas) {
  for (const TensorMeta& meta : metas) width_ = std::max(width_, meta.path.size());
}

h5::NewDataset ChecksumList::names() const {
  return {"checksum/path", std::nullopt, width_, {metas_.size()}};
}

std::vector<std::uint8_t> ChecksumList::padded_names() const {
  std::vector<std::uint8_t> names(width_ * metas_.size());
  for (std::size_t i = 0; i < metas_.size(); ++i)
    std::copy(metas_[i].path.begin(), metas_[i].path.end(),
              names.begin() + static_cast<std::ptrdiff_t>(i * width_));
  return names;
}

h5::NewDataset ChecksumList::sums() const {
  return {"checksum/crc32c", number_format("uint32"), 0, {metas_.size()}};
}

std::vector<std::uint8_t> ChecksumList::bytes_of(std::span<const std::uint32_t> sums) {
  const NumberFormat format = number_format("uint32").value();
  std::vector<std::uint8_t> bytes(4 * sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) store_pattern(format, sums[i], bytes.data() + 4 * i);
  return bytes;
}

}  // namespace bitrift::ckpt
