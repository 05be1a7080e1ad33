// Faults in HDF5's own structures.
#include <algorithm>
#include <map>

#include <fcntl.h>

#include "core/error.h"
#include "core/file.h"
#include "core/permutation.h"
#include "core/philox.h"
#include "inject/plan.h"

namespace bitrift::inject {
namespace {

void check_metadata_model(const record::FaultModel& model) {
  const auto refuse = [](const char* what) {
    fail(ErrorCode::bad_input, "plane metadata alters the file's own structures, so it has no {}", what);
  };
  if (!model.tensors.empty()) refuse("tensors to choose");
  if (!model.roles.empty()) refuse("roles to choose");
  if (!model.layers.empty()) refuse("layers to choose");
  if (model.bits != "any") refuse("bit fields");
  if (model.what != "flip") refuse("other kind of fault than flip");
  if (model.measure != "bit") refuse("other measure than bit");
  if (!model.count) refuse("other amount than a count");
  if (!model.as.empty()) refuse("tensors to read as another format");
  if (!model.scope.all()) refuse("scope");
}

}  // namespace

std::vector<ByteExtent> metadata_extents(const ckpt::Reader& reader) {
  std::vector<ByteExtent> values;
  for (const ckpt::TensorInfo& tensor : reader.tensors()) {
    if (tensor.elements() == 0) continue;
    if (!tensor.offset) {
      fail(ErrorCode::unsupported,
           "{}: {} is {}: its values cannot be told apart from the file's structures; plane metadata needs "
           "contiguous tensors",
           reader.path().string(), tensor.path, tensor.storage);
    }
    values.push_back({*tensor.offset, *tensor.offset + tensor.stored_bytes});
  }
  std::sort(values.begin(), values.end(),
            [](const ByteExtent& a, const ByteExtent& b) { return a.first < b.first; });
  std::vector<ByteExtent> extents;
  std::uint64_t next = 0;
  for (const ByteExtent& value : values) {
    if (value.first > next) extents.push_back({next, value.first});
    next = std::max(next, value.end);
  }
  const std::uint64_t size = std::filesystem::file_size(reader.path());
  if (size > next) extents.push_back({next, size});
  return extents;
}

Plan plan_metadata(const ckpt::Reader& reader, const record::FaultModel& model) {
  check_metadata_model(model);
  const std::vector<ByteExtent> extents = metadata_extents(reader);
  Plan plan;
  for (const ByteExtent& extent : extents) plan.census.elements += extent.end - extent.first;
  plan.census.bits = 8 * plan.census.elements;
  if (*model.count > plan.census.bits) {
    fail(ErrorCode::bad_input, "--count {} is more than the {} bits that are targeted", *model.count,
         plan.census.bits);
  }
  std::map<std::uint64_t, std::uint64_t> flips;  // by byte, as a mask
  const Permutation order(plan.census.bits, derive_key(model.seed, "inject.metadata"));
  for (std::uint64_t i = 0; i < *model.count; ++i) {
    std::uint64_t byte = order(i) / 8;
    auto extent = extents.begin();
    for (; byte >= extent->end - extent->first; ++extent) byte -= extent->end - extent->first;
    flips[extent->first + byte] |= std::uint64_t{1} << order(i) % 8;
  }
  const FileDescriptor file = open_file(reader.path(), O_RDONLY);
  plan.list.sites.push_back({"", "metadata", "uint8", "metadata"});
  for (const auto& [byte, bits] : flips) {
    std::uint8_t value = 0;
    read_at(file, &value, 1, byte, reader.path());
    plan.list.changes.push_back({0, byte, bits, value, value ^ bits});
  }
  return plan;
}

}  // namespace bitrift::inject
