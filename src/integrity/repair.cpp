#include "integrity/repair.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fcntl.h>

#include "ckpt/container/open_container.h"
#include "ckpt/reader.h"
#include "ckpt/set/file_set.h"
#include "core/error.h"
#include "core/file.h"
#include "inject/stored_bytes.h"
#include "inject/write/apply.h"
#include "integrity/structure_search.h"

namespace bitrift::integrity {
namespace {

/// The altered bytes of a file: what each holds before and after.
struct AlteredByte {
  std::uint8_t before = 0, after = 0;
};
using AlteredBytes = std::map<std::uint64_t, AlteredByte>;

AlteredBytes altered_by(const std::vector<FileBit>& bits, const FileDescriptor& fd,
                        const std::filesystem::path& file) {
  AlteredBytes bytes;
  for (const FileBit& bit : bits) {
    const auto [at, added] = bytes.try_emplace(bit.offset);
    if (added) {
      read_at(fd, &at->second.before, 1, bit.offset, file);
      at->second.after = at->second.before;
    }
    at->second.after ^= static_cast<std::uint8_t>(1U << bit.bit);
  }
  return bytes;
}

/// Names altered bytes as faults, by the repaired file, which can be read in any case.
class FaultNamer {
 public:
  explicit FaultNamer(const ckpt::Reader& reader) : reader_(reader) {}

  /// On the plane storage; nullopt if a byte belongs to no tensor that can be altered.
  [[nodiscard]] std::optional<record::FaultList> in_values(const AlteredBytes& bytes) const {
    std::map<std::pair<std::string, std::uint64_t>, record::AppliedFault> faults;
    for (const auto& [offset, byte] : bytes) {
      if (!add_value(offset, byte, faults)) return std::nullopt;
    }
    record::FaultList list;
    for (const auto& [key, fault] : faults) list.append(fault);
    return list;
  }

  [[nodiscard]] record::FaultList in_bytes(const AlteredBytes& bytes) const {
    const std::vector<ckpt::ByteExtent> extents = reader_.container().metadata();
    record::FaultList list;
    for (const auto& [offset, byte] : bytes) {
      record::AppliedFault fault = byte_fault(offset, byte);
      fault.role = "metadata";
      fault.plane = record::Plane::metadata;
      fault.structure = "values";
      for (const ckpt::ByteExtent& extent : extents) {
        if (extent.first <= offset && offset < extent.end) fault.structure = extent.structure;
      }
      list.append(fault);
    }
    return list;
  }

 private:
  using Faults = std::map<std::pair<std::string, std::uint64_t>, record::AppliedFault>;

  static record::AppliedFault byte_fault(std::uint64_t offset, const AlteredByte& byte) {
    record::AppliedFault fault;
    fault.element = offset;
    fault.dtype = "uint8";
    fault.old_pattern = byte.before;
    fault.new_pattern = byte.after;
    for (unsigned bit = 0; bit < 8; ++bit) {
      if (((byte.before ^ byte.after) >> bit & 1U) != 0) fault.bits.push_back(bit);
    }
    return fault;
  }

  [[nodiscard]] bool add_value(std::uint64_t offset, const AlteredByte& byte, Faults& faults) const {
    for (const ckpt::TensorInfo& tensor : reader_.tensors()) {
      if (!tensor.refusal.empty() || !tensor.alias_of.empty()) continue;
      const auto runs = reader_.values(tensor).stored_runs();
      std::uint64_t before = 0;  // bytes of the values in earlier runs
      for (std::size_t i = 0; i < runs.size(); before += runs[i++].bytes) {
        if (offset < runs[i].offset || offset - runs[i].offset >= runs[i].bytes) continue;
        if (inject::has_filters(tensor)) return add_packed(tensor, i, offset, byte, faults);
        if (add_element(tensor, before + offset - runs[i].offset, byte, faults)) return true;
      }
    }
    return false;
  }

  static bool add_packed(const ckpt::TensorInfo& tensor, std::size_t chunk, std::uint64_t offset,
                         const AlteredByte& byte, Faults& faults) {
    record::AppliedFault fault = byte_fault(offset, byte);
    fault.tensor = inject::dataset_of(tensor);
    fault.role = tensor.role;
    fault.plane = record::Plane::storage;
    fault.structure = fmt::format("raw chunk {} of /{}", chunk, fault.tensor);
    faults[{fault.tensor, offset}] = fault;
    return true;
  }

  /// value_byte: its place in the tensor's values. False if it is in no element, as for parts of a compound.
  bool add_element(const ckpt::TensorInfo& tensor, std::uint64_t value_byte, const AlteredByte& byte,
                   Faults& faults) const {
    const auto element = element_at(tensor, value_byte);
    if (!element) return false;
    const std::uint64_t within = value_byte - tensor.byte_of(*element);
    const bool big = tensor.order == ByteOrder::big;
    const std::uint64_t shift = 8 * (big ? tensor.element_bytes - 1 - within : within);
    const auto [at, added] = faults.try_emplace({tensor.path, *element});
    record::AppliedFault& fault = at->second;
    if (added) {
      std::uint64_t now = 0;  // in the repaired file
      reader_.read_elements(tensor, *element, 1, &now);
      fault.tensor = tensor.path;
      fault.role = tensor.role;
      fault.element = *element;
      fault.dtype = tensor.format->name();
      fault.plane = record::Plane::storage;
      fault.structure = inject::structure_of(tensor);
      fault.old_pattern = fault.new_pattern = now;
    }
    for (unsigned bit = 0; bit < 8; ++bit) {
      if (((byte.before ^ byte.after) >> bit & 1U) == 0) continue;
      fault.old_pattern ^= std::uint64_t{1} << (shift + bit);
      fault.bits.push_back(static_cast<unsigned>(shift + bit));
    }
    std::sort(fault.bits.begin(), fault.bits.end());
    return true;
  }

  static std::optional<std::uint64_t> element_at(const ckpt::TensorInfo& tensor, std::uint64_t value_byte) {
    const std::uint64_t width = tensor.element_bytes;
    if (tensor.whole()) {
      const std::uint64_t element = value_byte / width;
      return element < tensor.elements() ? std::optional(element) : std::nullopt;
    }
    for (std::uint64_t i = 0; i < tensor.elements(); ++i) {
      if (const std::uint64_t first = tensor.byte_of(i); first <= value_byte && value_byte < first + width)
        return i;
    }
    return std::nullopt;
  }

  const ckpt::Reader& reader_;
};

/// The tensors of which a stored chunk is damaged.
std::set<std::string> with_damaged_chunks(const Verification& found) {
  std::set<std::string> datasets;
  for (const SummedPart& part : found.parts) {
    const auto* const chunk = std::get_if<ChunkPlace>(&part.place);
    if (chunk != nullptr && !part.damage.empty()) datasets.insert(chunk->dataset);
  }
  return datasets;
}

}  // namespace

bool RepairPlan::complete() const { return !sound && failure().empty(); }

std::string RepairPlan::failure() const {
  if (!structure.empty()) return structure;
  for (const ExplainedPart& part : parts) {
    if (!part.explanation.failure.empty()) return part.name + ": " + part.explanation.failure;
  }
  return "";
}

std::vector<FileBit> RepairPlan::bits() const {
  std::vector<FileBit> all;
  for (const ExplainedPart& part : parts)
    all.insert(all.end(), part.explanation.bits.begin(), part.explanation.bits.end());
  std::sort(all.begin(), all.end());
  return all;
}

RepairPlan plan_repair(const std::filesystem::path& file, const Verification& found) {
  if (std::filesystem::is_directory(ckpt::root_of_set(file))) {
    fail(ErrorCode::unsupported,
         "{}: is a checkpoint in several files; repair takes one file, and verify names the damaged one",
         file.string());
  }
  RepairPlan plan;
  plan.sound = found.sound();
  if (!found.damage.empty() && found.parts.empty() && ckpt::other_than_hdf5(file) == "a zip archive") {
    plan.parts.push_back({std::nullopt, "directory of the archive", explain_structure(file)});
    return plan;
  }
  const std::set<std::string> chunks = with_damaged_chunks(found);
  const FlipSearch search(file);
  for (const SummedPart& part : found.parts) {
    if (part.damage.empty()) continue;
    const auto* const values = std::get_if<ValuesPlace>(&part.place);
    if (values != nullptr && chunks.contains(values->tensor)) continue;
    plan.parts.push_back({part.kind, part.name, search.explain(part)});
  }
  if (plan.parts.empty()) plan.structure = found.damage;
  return plan;
}

void write_repaired(const std::filesystem::path& file, const RepairPlan& plan,
                    const std::filesystem::path& output,
                    const std::function<void(inject::Manifest& manifest)>& keep) {
  const std::vector<FileBit> bits = plan.bits();
  const AlteredBytes bytes = altered_by(bits, open_file(file, O_RDONLY), file);
  inject::Manifest manifest;
  manifest.model.count = bits.size();
  manifest.plan.census.elements = bytes.size();
  manifest.plan.census.bits = bits.size();
  inject::set_base(manifest, file);
  inject::copy_altered({file}, output, [&](const FileRun& written) {
    for (const auto& [offset, byte] : bytes) written.write(&byte.after, 1, offset);
    const std::filesystem::path& copy = written.files().root;
    const Verification again = verify(copy);
    if (!again.sound()) {
      fail(ErrorCode::conflict,
           "{}: with the flips that its sums suggest, the file is still damaged; nothing was written",
           file.string());
    }
    const ckpt::Reader repaired(copy);
    const FaultNamer namer(repaired);
    auto faults = namer.in_values(bytes);
    manifest.model.plane = faults ? record::Plane::storage : record::Plane::metadata;
    manifest.plan.list = faults ? std::move(*faults) : namer.in_bytes(bytes);
    keep(manifest);
  });
}

}  // namespace bitrift::integrity
