#include "integrity/altered_bytes.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>

#include <fcntl.h>

#include "ckpt/format/half_byte_values.h"
#include "ckpt/reader.h"
#include "core/file.h"
#include "inject/stored_bytes.h"

namespace bitrift::integrity {
namespace {

constexpr std::size_t most_values = 4096;  // with more bytes, nobody asks for the elements

/// Names altered bytes as faults, by the repaired file, which can be read in any case.
class FaultNamer {
 public:
  explicit FaultNamer(const ckpt::Reader& reader) : reader_(reader) {
    std::size_t order = 0;
    for (const ckpt::TensorInfo& tensor : reader_.tensors()) {
      ++order;
      if (!tensor.refusal.empty() || !tensor.alias_of.empty()) continue;
      if (tensor.storage == ckpt::storage_of_packed_file) continue;  // its bytes are those of others too
      if (ckpt::takes_half_a_byte(*tensor.format)) continue;         // a byte of it is not one element
      const auto runs = reader_.values(tensor).stored_runs();
      std::uint64_t before = 0;
      for (std::size_t i = 0; i < runs.size(); before += runs[i++].bytes)
        places_.push_back({&tensor, order, i, runs[i].offset, runs[i].bytes, before, 0});
    }
    std::sort(places_.begin(), places_.end(),
              [](const Place& a, const Place& b) { return a.first < b.first; });
    std::uint64_t furthest = 0;
    for (Place& place : places_) place.furthest = furthest = std::max(furthest, place.first + place.bytes);
  }

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
      const auto extent = std::partition_point(extents.begin(), extents.end(),
                                               [at = offset](const auto& one) { return one.end <= at; });
      if (extent != extents.end() && extent->first <= offset) fault.structure = extent->structure;
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

  /// A run of stored bytes of a tensor.
  struct Place {
    const ckpt::TensorInfo* tensor;
    std::size_t order, run;  ///< of the tensor, and of the run in it
    std::uint64_t first, bytes;
    std::uint64_t before;    ///< bytes of the values in earlier runs
    std::uint64_t furthest;  ///< end of this place or of one that begins before it
  };

  [[nodiscard]] bool add_value(std::uint64_t offset, const AlteredByte& byte, Faults& faults) const {
    std::vector<const Place*> holding;  // tensors may share bytes
    auto at = std::partition_point(places_.begin(), places_.end(),
                                   [offset](const Place& place) { return place.first <= offset; });
    while (at != places_.begin() && (--at)->furthest > offset) {
      if (offset - at->first < at->bytes) holding.push_back(&*at);
    }
    std::sort(holding.begin(), holding.end(),
              [](const Place* a, const Place* b) { return a->order < b->order; });
    for (const Place* place : holding) {
      if (inject::has_filters(*place->tensor))
        return add_packed(*place->tensor, place->run, offset, byte, faults);
      if (add_element(*place->tensor, place->before + offset - place->first, byte, faults)) return true;
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
  std::vector<Place> places_;  ///< by their first bytes
};

}  // namespace

AlteredBytes altered_by(const std::vector<FileBit>& bits, const std::filesystem::path& file) {
  const FileDescriptor fd = open_file(file, O_RDONLY);
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

inject::Manifest manifest_of(const AlteredBytes& bytes, const std::filesystem::path& damaged,
                             const std::filesystem::path& repaired) {
  inject::Manifest manifest;
  for (const auto& [offset, byte] : bytes)
    manifest.plan.census.bits +=
        static_cast<std::uint64_t>(std::popcount(static_cast<std::uint8_t>(byte.before ^ byte.after)));
  manifest.model.count = manifest.plan.census.bits;
  manifest.plan.census.elements = bytes.size();
  inject::set_base(manifest, damaged);
  const ckpt::Reader reader(repaired);
  const FaultNamer namer(reader);
  auto faults = reader.container().files() == nullptr && bytes.size() <= most_values ? namer.in_values(bytes)
                                                                                     : std::nullopt;
  manifest.model.plane = faults ? record::Plane::storage : record::Plane::metadata;
  manifest.plan.list = faults ? std::move(*faults) : namer.in_bytes(bytes);
  return manifest;
}

}  // namespace bitrift::integrity
