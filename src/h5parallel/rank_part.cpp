#include "h5parallel/rank_part.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace bitrift::h5parallel {
namespace {

ckpt::TensorMeta meta_of(const ckpt::Reader& source, const ckpt::TensorInfo& tensor) {
  if (!tensor.format || !tensor.plain || !tensor.holder.empty() || tensor.format->name() == "bool") {
    fail(ErrorCode::unsupported, "{}: {} holds {}; only plain numbers can be written in parallel",
         source.path().string(), tensor.holder.empty() ? tensor.path : tensor.holder, tensor.dtype);
  }
  ckpt::TensorMeta meta{tensor.path, *tensor.format, tensor.shape};
  meta.format.order = ByteOrder::little;  // in the form of Reader
  return meta;
}

}  // namespace

Rows rows_of(const std::vector<std::uint64_t>& shape, int rank, int ranks) noexcept {
  const std::uint64_t all = shape.empty() ? 1 : shape.front();
  const auto r = static_cast<std::uint64_t>(rank);
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t longer = all % n;
  return {all / n * r + std::min(r, longer), all / n + (r < longer ? 1 : 0)};
}

std::vector<SourceTensor> tensors_of(const ckpt::Reader& source) {
  std::vector<SourceTensor> tensors;
  for (const ckpt::TensorInfo& tensor : source.tensors()) {
    if (!tensor.path.starts_with("checksum/")) tensors.push_back({&tensor, meta_of(source, tensor)});
  }
  if (tensors.empty())
    fail(ErrorCode::bad_input, "{}: has no tensors; name a checkpoint", source.path().string());
  return tensors;
}

std::vector<TensorPart> read_part(const ckpt::Reader& source, int rank, int ranks) {
  std::vector<TensorPart> parts;
  for (SourceTensor& tensor : tensors_of(source)) {
    TensorPart part{std::move(tensor.meta), rows_of(tensor.info->shape, rank, ranks), {}};
    const std::vector<std::uint64_t>& shape = part.meta.shape;
    const std::uint64_t rows = shape.empty() ? 1 : shape.front();
    const std::uint64_t row = rows == 0 ? 0 : part.meta.elements() / rows;
    part.values.resize(part.rows.count * row * part.meta.format.bytes);
    if (!part.values.empty())
      source.read_elements(*tensor.info, part.rows.first * row, part.rows.count * row, part.values.data());
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace bitrift::h5parallel
