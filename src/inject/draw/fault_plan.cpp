#include "inject/draw/fault_plan.h"

#include <optional>
#include <utility>

#include "core/error.h"
#include "inject/draw/draw.h"
#include "inject/draw/metadata.h"

namespace bitrift::inject {
namespace {

std::uint64_t read_pattern(const ckpt::Reader& reader, const ckpt::TensorInfo& tensor,
                           std::uint64_t element) {
  std::uint8_t stored[8] = {};
  reader.read_elements(tensor, element, 1, stored);
  NumberFormat format = *tensor.format;
  format.order = ByteOrder::little;  // read_elements has converted the byte order
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

/// On the plane storage: the part of the file that holds the altered bytes. The faults drawn from a target's
/// stored bytes get a site for each of its chunks, and their places in the file.
void name_structures(const ckpt::Reader& reader, const Population& population, record::FaultList& list) {
  std::vector<record::FaultSite> sites;
  std::optional<std::pair<std::uint32_t, std::uint64_t>> at;  // target and chunk of the last site
  for (record::ElementChange& change : list.changes) {
    const Target& target = population.targets().at(change.site);
    StoredBytes::Place place;
    if (target.stored) {
      place = target.stored->place(change.element);
      change.element = place.offset;
    }
    if (at != std::pair(change.site, place.chunk)) {
      at = {change.site, place.chunk};
      sites.push_back(list.sites[change.site]);
      sites.back().structure = target.stored ? fmt::format("raw chunk {} of /{}", place.chunk, target.path)
                                             : structure_of(*reader.find(target.path));
    }
    change.site = static_cast<std::uint32_t>(sites.size() - 1);
  }
  list.sites = std::move(sites);
}

void add_whole(record::FaultList& list, const ckpt::Reader& reader, const record::WholeTensor& whole) {
  const ckpt::TensorInfo& tensor = alterable(reader, whole.tensor);
  const NumberFormat& format = *tensor.format;
  if (format.kind != NumberKind::floating) {
    fail(ErrorCode::unsupported, "{}: {} is {}: only floating tensors can be negated or set to NaN",
         reader.path().string(), whole.tensor, format.name());
  }
  const bool nan = whole.change == record::WholeChange::nan;
  const std::uint64_t mask = nan ? format.mask() : sign_mask(format);
  NumberFormat in_memory = format;
  in_memory.order = ByteOrder::little;
  const auto site = static_cast<std::uint32_t>(list.sites.size());
  list.sites.push_back({whole.tensor, tensor.role, format.name()});
  const std::uint64_t count =
      whole.elements == 0 ? tensor.elements() : std::min(whole.elements, tensor.elements());
  std::vector<std::uint8_t> stored(count * format.bytes);
  reader.read_elements(tensor, 0, count, stored.data());
  list.changes.reserve(list.changes.size() + count);
  for (std::uint64_t element = 0; element < count; ++element) {
    const std::uint64_t old_pattern = load_pattern(in_memory, stored.data() + element * format.bytes);
    const std::uint64_t value = nan ? nan_pattern(format) : ~old_pattern;
    list.changes.push_back({site, element, mask, old_pattern, blend(old_pattern, value, mask)});
  }
}

}  // namespace

std::vector<TargetedTensor> tensors_of(const ckpt::Reader& reader, const std::vector<std::string>& paths) {
  std::vector<TargetedTensor> rows;
  const auto add = [&](const ckpt::TensorInfo& tensor) {
    rows.push_back({tensor.path, tensor.format ? tensor.format->name() : tensor.dtype, tensor.shape});
  };
  for (const std::string& path : paths) {
    const ckpt::TensorInfo* const tensor = reader.find(path);
    if (tensor != nullptr) {
      add(*tensor);
      continue;
    }
    for (const ckpt::TensorInfo& part : reader.tensors()) {
      if (part.holder == path) add(part);
    }
  }
  return rows;
}

Population population_of(const ckpt::Reader& reader, const record::FaultModel& model) {
  check_model(model);
  return {reader, model};
}

void set_default_count(const ckpt::Reader& reader, record::FaultModel& model) {
  if (model.count || model.fraction || model.ber) return;
  const bool listed = !model.bits.empty() && model.bits.front() >= '0' && model.bits.front() <= '9';
  const bool drawn_by_bit = model.measure == record::Measure::bit && Alteration(model).single_bits();
  const bool all = model.element && listed && drawn_by_bit && model.plane != record::Plane::metadata;
  model.count = all ? Population(reader, model).bits() : 1;
}

Plan plan(const ckpt::Reader& reader, const record::FaultModel& model) {
  if (model.plane == record::Plane::metadata) return plan_metadata(reader, model);
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
  if (model.plane == record::Plane::storage) name_structures(reader, population, result.list);
  result.redrawn = drawn.redrawn;
  result.upsets = std::move(drawn.upsets);
  std::vector<std::string> paths;
  for (const Target& target : population.targets()) paths.push_back(target.path);
  result.tensors = tensors_of(reader, paths);
  return result;
}

record::FaultList draw(const ckpt::Reader& reader, const record::FaultModel& model) {
  if (model.plane == record::Plane::metadata) return plan_metadata(reader, model).list;
  const Population population = population_of(reader, model);
  record::FaultList list = draw_from(reader, model, population).list;
  if (model.plane == record::Plane::storage) name_structures(reader, population, list);
  list.drop_unused_sites();
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

record::FaultList whole_tensors(const ckpt::Reader& reader, const std::vector<record::WholeTensor>& tensors) {
  record::FaultList list;
  for (const record::WholeTensor& whole : tensors) add_whole(list, reader, whole);
  return list;
}

}  // namespace bitrift::inject
