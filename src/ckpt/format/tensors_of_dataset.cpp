#include "ckpt/format/tensors_of_dataset.h"

#include "ckpt/format/units.h"

namespace bitrift::ckpt {

void TensorInfo::refuse_type() {
  refused_by_type = refusal.empty() && plain;
  if (!refusal.empty()) return;
  refusal = fmt::format("its type ({}) is not a number format that bitrift alters", dtype);
  const char* const likely = element_bytes == 1   ? "float8_e4m3fn"
                             : element_bytes == 2 ? "bfloat16"
                             : element_bytes == 4 ? "float32"
                                                  : "";
  if (plain && dtype == "opaque" && *likely != '\0')
    refusal += fmt::format("; if it is {0}, say so: --as '{1}={0}'", likely, path);
}

std::uint64_t TensorInfo::elements() const noexcept {
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape) {
    if (__builtin_mul_overflow(count, size, &count)) count = ~std::uint64_t{0};
    if (size == 0) return 0;
  }
  return count;
}

std::string storage_name(const h5map::Layout& layout) {
  std::string name;
  switch (layout.storage) {
    case h5map::Storage::contiguous:
      name = "contiguous";
      break;
    case h5map::Storage::compact:
      name = "compact";
      break;
    case h5map::Storage::chunked:
      name = "chunked";
      break;
    case h5map::Storage::virtual_source:
      name = "virtual";
      break;
    case h5map::Storage::external:
      name = "external";
      break;
  }
  return layout.filters.empty() || layout.storage != h5map::Storage::chunked ? name : name + "+filters";
}

std::vector<TensorInfo> describe(const h5map::DatatypePtr& type, const std::string& path,
                                 const std::vector<std::uint64_t>& shape, const std::string& problem,
                                 std::uint64_t& room) {
  std::vector<TensorInfo> units;
  if (type) {
    units = units_of(*type, path, shape, room);
  } else {
    units.emplace_back();
    units.back().path = path;
    units.back().dtype = "unreadable";
    units.back().shape = shape;
  }
  for (TensorInfo& unit : units) {
    if (!problem.empty()) unit.refusal = problem;
    if (unit.refusal.empty() && unit.elements() == 0) unit.refusal = "it has no elements";
    if (unit.format || !type) continue;
    unit.refuse_type();
  }
  return units;
}

}  // namespace bitrift::ckpt
