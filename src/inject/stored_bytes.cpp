#include "inject/stored_bytes.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace bitrift::inject {
namespace {

const ckpt::TensorInfo* part_of(const ckpt::Reader& reader, const std::string& dataset) {
  if (const ckpt::TensorInfo* const tensor = reader.find(dataset); tensor != nullptr) return tensor;
  const auto& all = reader.tensors();
  const auto part =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.holder == dataset; });
  return part == all.end() ? nullptr : &*part;
}

}  // namespace

bool has_filters(const ckpt::TensorInfo& tensor) {
  return tensor.storage == "chunked+filters" || tensor.storage == "deflated";
}

std::string structure_of(const ckpt::TensorInfo& tensor) {
  if (tensor.storage == "attribute") return "attribute value";
  return tensor.storage.starts_with("chunked") ? "raw data, chunk" : "raw data, " + tensor.storage;
}

const std::string& dataset_of(const ckpt::TensorInfo& tensor) noexcept {
  return tensor.holder.empty() ? tensor.path : tensor.holder;
}

StoredBytes::StoredBytes(const ckpt::Reader& reader, const std::string& dataset) {
  const std::string file = reader.path().string();
  const ckpt::TensorInfo* const tensor = part_of(reader, dataset);
  if (tensor == nullptr) fail(ErrorCode::conflict, "{}: has no tensor {}", file, dataset);
  if (!has_filters(*tensor)) {
    fail(ErrorCode::conflict, "{}: {} has no chunks with filters (its storage is {})", file, dataset,
         tensor->storage);
  }
  const ckpt::Values& values = reader.values(*tensor);
  if (const std::string reason = values.unalterable(); !reason.empty()) {
    fail(ErrorCode::unsupported, "{}: {} cannot be altered: {}", file, dataset, reason);
  }
  runs_ = values.stored_runs();  // every cell has one, so the i-th belongs to cell i
  before_.assign(1, 0);
  for (const auto& run : runs_) before_.push_back(before_.back() + run.bytes);
  by_offset_.resize(runs_.size());
  std::iota(by_offset_.begin(), by_offset_.end(), std::size_t{0});
  std::sort(by_offset_.begin(), by_offset_.end(),
            [this](std::size_t a, std::size_t b) { return runs_[a].offset < runs_[b].offset; });
}

StoredBytes::Place StoredBytes::place(std::uint64_t i) const {
  if (i >= bytes()) fail(ErrorCode::internal, "stored byte {} of {}", i, bytes());
  const auto next = std::upper_bound(before_.begin(), before_.end(), i);
  const auto chunk = static_cast<std::size_t>(next - before_.begin()) - 1;
  return {chunk, runs_[chunk].offset + (i - before_[chunk]), *next - i};
}

bool StoredBytes::holds(std::uint64_t offset) const {
  const auto behind = std::partition_point(by_offset_.begin(), by_offset_.end(),
                                           [&](std::size_t chunk) { return runs_[chunk].offset <= offset; });
  if (behind == by_offset_.begin()) return false;
  const auto& run = runs_[*std::prev(behind)];
  return offset - run.offset < run.bytes;
}

}  // namespace bitrift::inject
