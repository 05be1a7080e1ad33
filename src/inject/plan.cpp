#include "inject/plan.h"

#include <utility>

#include "core/error.h"
#include "inject/draw.h"

namespace bitrift::inject {
namespace {

std::uint64_t read_pattern(const ckpt::Reader& reader, const ckpt::TensorInfo& tensor,
                           std::uint64_t element) {
  std::uint8_t stored[8] = {};
  reader.read_elements(tensor, element, 1, stored);
  NumberFormat format = *tensor.format;
  format.order = ByteOrder::little;  // read_elements has turned the bytes already
  return load_pattern(format, stored);
}

const ckpt::TensorInfo& alterable(const ckpt::Reader& reader, const std::string& path) {
  const ckpt::TensorInfo* const tensor = reader.find(path);
  if (tensor == nullptr) fail(ErrorCode::not_found, "{}: has no tensor {}", reader.path().string(), path);
  if (!tensor->refusal.empty()) {
    fail(ErrorCode::unsupported, "{}: {} cannot be altered: {}", reader.path().string(), path,
         tensor->refusal);
  }
  return *tensor;
}

/// `value` in the given bits, `old` elsewhere.
std::uint64_t blend(std::uint64_t old, std::uint64_t value, std::uint64_t mask) {
  return (old & ~mask) | (value & mask);
}

}  // namespace

namespace {

/// What of the file holds the altered bytes, on the plane storage. Filters are for make_patch() to refuse.
void name_structures(const ckpt::Reader& reader, FaultList& list) {
  for (FaultSite& site : list.sites) {
    if (site.plane != "storage") continue;
    const std::string& storage = reader.find(site.tensor)->storage;
    site.structure = storage == "attribute"           ? "attribute value"
                     : storage.starts_with("chunked") ? "raw data, chunk"
                                                      : "raw data, " + storage;
  }
}

}  // namespace

Population population_of(const ckpt::Reader& reader, const record::FaultModel& model) {
  check_model(model);
  return {reader, model};
}

Plan plan(const ckpt::Reader& reader, const record::FaultModel& model) {
  if (model.plane == "metadata") return plan_metadata(reader, model);
  const Population population = population_of(reader, model);
  Plan result;
  result.census = count_eligible(reader, model, population);
  if (result.census.bits == 0) {
    fail(ErrorCode::bad_input,
         "{}: {} can be placed: every fault that the model describes gives NaN or infinity, which --no-nan "
         "forbids",
         reader.path().string(),
         model.count ? fmt::format("only 0 of the {} faults", *model.count) : "nothing");
  }
  Drawn drawn = draw_from(reader, model, population);
  result.list = std::move(drawn.list);
  name_structures(reader, result.list);
  result.redrawn = drawn.redrawn;
  return result;
}

FaultList draw(const ckpt::Reader& reader, const record::FaultModel& model) {
  if (model.plane == "metadata") return plan_metadata(reader, model).list;
  FaultList list = draw_from(reader, model, population_of(reader, model)).list;
  name_structures(reader, list);
  return list;
}

record::AppliedFault flip_at(const ckpt::Reader& reader, const Population::Location& where) {
  const ckpt::TensorInfo& tensor = alterable(reader, where.target->path);
  if (where.element >= tensor.elements() || where.bit >= tensor.format->bits()) {
    fail(ErrorCode::bad_input, "{}: {} has no bit {} of element {}", reader.path().string(), tensor.path,
         where.bit, where.element);
  }
  const std::uint64_t old_pattern = read_pattern(reader, tensor, where.element);
  return {.tensor = tensor.path,
          .role = tensor.role,
          .element = where.element,
          .dtype = tensor.format->name(),
          .bits = {where.bit},
          .field = field_of_bit(*tensor.format, where.bit),
          .old_pattern = old_pattern,
          .new_pattern = old_pattern ^ (std::uint64_t{1} << where.bit)};
}

std::vector<record::AppliedFault> whole_tensor(const ckpt::Reader& reader, const std::string& path,
                                               const std::string& what) {
  const ckpt::TensorInfo& tensor = alterable(reader, path);
  const NumberFormat& format = *tensor.format;
  if (what != "negate" && what != "nan") fail(ErrorCode::bad_input, "'{}' is neither negate nor nan", what);
  if (format.kind != NumberKind::floating) {
    fail(ErrorCode::unsupported, "{}: {} is {}: only floating tensors can be negated or set to NaN",
         reader.path().string(), path, format.name());
  }
  const std::uint64_t mask = what == "nan" ? format.mask() : sign_mask(format);
  std::vector<std::uint8_t> stored(tensor.elements() * format.bytes);
  reader.read(tensor, stored.data(), stored.size());
  NumberFormat in_memory = format;
  in_memory.order = ByteOrder::little;
  FaultList list;
  list.sites.push_back({path, tensor.role, format.name()});
  list.changes.reserve(tensor.elements());
  for (std::uint64_t element = 0; element < tensor.elements(); ++element) {
    const std::uint64_t old_pattern = load_pattern(in_memory, stored.data() + element * format.bytes);
    const std::uint64_t value = what == "nan" ? nan_pattern(format) : ~old_pattern;
    list.changes.push_back({0, element, mask, old_pattern, blend(old_pattern, value, mask)});
  }
  return list.expanded();
}

}  // namespace bitrift::inject
