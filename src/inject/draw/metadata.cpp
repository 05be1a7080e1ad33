#include "inject/draw/metadata.h"

#include <algorithm>
#include <map>

#include <fcntl.h>

#include "core/error.h"
#include "core/file_run.h"
#include "core/permutation.h"
#include "core/philox.h"

namespace bitrift::inject {
namespace {

void check_metadata_model(const record::FaultModel& model) {
  const auto refuse = [](const char* what) {
    fail(ErrorCode::bad_input, "plane metadata alters the file's own structures, so it has no {}", what);
  };
  if (!model.tensors.empty()) refuse("tensors to choose");
  if (!model.exclude.empty()) refuse("tensors to exclude");
  if (!model.roles.empty()) refuse("roles to choose");
  if (!model.layers.empty()) refuse("layers to choose");
  if (model.element) refuse("elements to choose");
  if (model.bits != "any") refuse("bit fields");
  if (model.what != record::FaultKind::flip) refuse("other kind of fault than flip");
  if (model.measure != record::Measure::bit) refuse("other measure than bit");
  if (!model.count) refuse("other amount than a count");
  if (!model.as.empty()) refuse("tensors to read as another format");
  if (!model.scope.all()) refuse("scope");
}

}  // namespace

Plan plan_metadata(const ckpt::Reader& reader, const record::FaultModel& model) {
  check_metadata_model(model);
  const std::vector<ckpt::ByteExtent> extents = reader.container().metadata();
  Plan plan;
  for (const ckpt::ByteExtent& extent : extents) plan.census.elements += extent.end - extent.first;
  plan.census.bits = 8 * plan.census.elements;
  if (*model.count > plan.census.bits) {
    fail(ErrorCode::bad_input, "--count {} is more than the {} bits that are targeted", *model.count,
         plan.census.bits);
  }
  std::vector<std::uint64_t> before;  // cumulative bytes of the extents
  before.reserve(extents.size());
  for (const ckpt::ByteExtent& extent : extents) {
    before.push_back((before.empty() ? 0 : before.back()) + extent.end - extent.first);
  }
  // By structure, so that each is named once; then by byte, with the bits as a mask.
  std::map<std::string, std::map<std::uint64_t, std::uint64_t>> flips;
  const Permutation order(plan.census.bits, derive_key(model.seed, "inject.metadata"));
  for (std::uint64_t i = 0; i < *model.count; ++i) {
    const std::uint64_t bit = order(i);
    const auto at = std::upper_bound(before.begin(), before.end(), bit / 8) - before.begin();
    const ckpt::ByteExtent& extent = extents[static_cast<std::size_t>(at)];
    const std::uint64_t byte = extent.end - (before[static_cast<std::size_t>(at)] - bit / 8);
    flips[extent.structure][byte] |= std::uint64_t{1} << bit % 8;
  }
  const FileRun file(reader.files(), O_RDONLY);
  for (const auto& [structure, bytes] : flips) {
    const auto site = static_cast<std::uint32_t>(plan.list.sites.size());
    plan.list.sites.push_back({"", "metadata", "uint8", record::Plane::metadata, structure});
    for (const auto& [byte, bits] : bytes) {
      std::uint8_t value = 0;
      file.read(&value, 1, byte);
      plan.list.changes.push_back({site, byte, bits, value, value ^ bits});
    }
  }
  return plan;
}

}  // namespace bitrift::inject
