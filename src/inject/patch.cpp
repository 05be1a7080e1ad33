#include <algorithm>
#include <map>
#include <utility>

#include <fcntl.h>

#include "core/crc32c.h"
#include "core/error.h"
#include "inject/apply.h"

namespace bitrift::inject {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// What the faults of one tensor do to its stored CRC-32C.
struct ChecksumChange {
  std::uint64_t offset = 0;
  std::uint32_t before = 0;
  std::uint32_t after = 0;
};

const ckpt::TensorInfo& checked_tensor(const ckpt::Reader& reader, const record::AppliedFault& fault) {
  const std::string file = reader.path().string();
  const ckpt::TensorInfo* const tensor = reader.find(fault.tensor);
  if (tensor == nullptr) fail(ErrorCode::conflict, "{}: has no tensor {}", file, fault.tensor);
  if (!tensor->refusal.empty() && !tensor->refused_by_type) {
    fail(ErrorCode::unsupported, "{}: {} cannot be altered: {}", file, fault.tensor, tensor->refusal);
  }
  // A fault may have been drawn for the bytes as another format of the same width.
  const auto format = number_format(fault.dtype);
  if (!format || format->bytes != tensor->element_bytes) {
    fail(ErrorCode::conflict, "{}: {} is {}, the fault is for {}", file, fault.tensor, tensor->dtype,
         fault.dtype);
  }
  if (fault.element >= tensor->elements()) {
    fail(ErrorCode::conflict, "{}: {} has {} elements, the fault is in element {}", file, fault.tensor,
         tensor->elements(), fault.element);
  }
  return *tensor;
}

Patch::Range element_range(const ckpt::Reader& reader, const ckpt::TensorInfo& tensor,
                           const record::AppliedFault& fault) {
  NumberFormat format = number_format(fault.dtype).value();
  std::uint8_t value[8] = {};
  reader.read_elements(tensor, fault.element, 1, value);
  const std::uint64_t found = load_pattern(format, value);
  if (tensor.format) format.order = tensor.format->order;
  if (found != fault.old_pattern) {
    fail(ErrorCode::conflict, "{}: element {} of {} holds {:#x}, the fault was drawn for {:#x}",
         reader.path().string(), fault.element, fault.tensor, found, fault.old_pattern);
  }
  Patch::Range range{*tensor.offset + fault.element * format.bytes, Bytes(format.bytes), Bytes(format.bytes)};
  // Bytes as they are stored: what is no part of the value (padding) stays.
  if (format.order == ByteOrder::big) std::reverse(value, value + format.bytes);
  std::copy(value, value + format.bytes, range.before.begin());
  std::copy(value, value + format.bytes, range.after.begin());
  store_pattern(format, fault.new_pattern, range.after.data());
  return range;
}

Patch::Range metadata_range(const ckpt::Reader& reader, const record::AppliedFault& fault) {
  Patch::Range range{fault.element, Bytes(1), Bytes(1)};
  const FileDescriptor file = open_file(reader.path(), O_RDONLY);
  read_at(file, range.before.data(), 1, fault.element, reader.path());
  if (range.before[0] != fault.old_pattern) {
    fail(ErrorCode::conflict, "{}: byte {} holds {:#x}, the fault was drawn for {:#x}",
         reader.path().string(), fault.element, range.before[0], fault.old_pattern);
  }
  range.after[0] = static_cast<std::uint8_t>(fault.new_pattern);
  return range;
}

/// CRC-32C is linear, so the stored sum follows from the changed bytes alone.
void follow_checksum(const ckpt::Reader& reader, const ckpt::TensorInfo& tensor, const Patch::Range& range,
                     std::map<std::string, ChecksumChange>& changes) {
  const auto stored = reader.checksum(tensor.path);
  if (!stored) return;
  const auto at =
      changes.try_emplace(tensor.path, ChecksumChange{stored->offset, stored->value, stored->value}).first;
  Bytes difference(range.before.size());
  for (std::size_t i = 0; i < difference.size(); ++i) {
    difference[i] = static_cast<std::uint8_t>(range.before[i] ^ range.after[i]);
  }
  const std::uint64_t after = *tensor.offset + tensor.stored_bytes - (range.offset + range.before.size());
  at->second.after = crc32c_xor(at->second.after, difference.data(), difference.size(), after);
}

Patch::Range checksum_range(const ChecksumChange& change) {
  const NumberFormat format = number_format("uint32").value();
  Patch::Range range{change.offset, Bytes(4), Bytes(4)};
  store_pattern(format, change.before, range.before.data());
  store_pattern(format, change.after, range.after.data());
  return range;
}

/// Sorts, and joins neighbours, so that a whole tensor is one write.
void join_ranges(const ckpt::Reader& reader, std::vector<Patch::Range>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  std::vector<Patch::Range> joined;
  for (Patch::Range& range : ranges) {
    const std::uint64_t end = joined.empty() ? 0 : joined.back().offset + joined.back().before.size();
    if (!joined.empty() && range.offset < end) {
      fail(ErrorCode::bad_input, "{}: two faults are given for the same element (at byte {})",
           reader.path().string(), range.offset);
    }
    if (!joined.empty() && range.offset == end) {
      joined.back().before.insert(joined.back().before.end(), range.before.begin(), range.before.end());
      joined.back().after.insert(joined.back().after.end(), range.after.begin(), range.after.end());
    } else {
      joined.push_back(std::move(range));
    }
  }
  ranges = std::move(joined);
}

void expect_bytes(const FileDescriptor& fd, const std::filesystem::path& path, std::uint64_t offset,
                  const Bytes& expected, ErrorCode code, const char* text) {
  Bytes found(expected.size());
  read_at(fd, found.data(), found.size(), offset, path);
  const auto [a, b] = std::mismatch(found.begin(), found.end(), expected.begin());
  if (a == found.end()) return;
  fail(code, "{}: byte {} is {:#04x}, not {:#04x}: {}", path.string(),
       offset + static_cast<std::uint64_t>(a - found.begin()), *a, *b, text);
}

}  // namespace

Patch make_patch(const ckpt::Reader& reader, const std::vector<record::AppliedFault>& faults) {
  Patch patch;
  std::map<std::string, ChecksumChange> checksums;
  for (const record::AppliedFault& fault : faults) {
    if (fault.plane == "metadata") {
      patch.ranges.push_back(metadata_range(reader, fault));
      continue;
    }
    const ckpt::TensorInfo& tensor = checked_tensor(reader, fault);
    Patch::Range range = element_range(reader, tensor, fault);
    if (range.before == range.after) continue;
    if (fault.plane == "value") follow_checksum(reader, tensor, range, checksums);
    patch.ranges.push_back(std::move(range));
  }
  for (const auto& [path, change] : checksums) {
    if (change.before != change.after) patch.ranges.push_back(checksum_range(change));
  }
  join_ranges(reader, patch.ranges);
  return patch;
}

void write_patch(const FileDescriptor& fd, const std::filesystem::path& path, const Patch& patch,
                 bool backwards) {
  for (const Patch::Range& range : patch.ranges) {
    expect_bytes(fd, path, range.offset, backwards ? range.after : range.before, ErrorCode::conflict,
                 "the file was changed by someone else; nothing was written");
  }
  for (const Patch::Range& range : patch.ranges) {
    const Bytes& bytes = backwards ? range.before : range.after;
    write_at(fd, bytes.data(), bytes.size(), range.offset, path);
  }
  for (const Patch::Range& range : patch.ranges) {
    expect_bytes(fd, path, range.offset, backwards ? range.before : range.after, ErrorCode::io,
                 "what was written does not read back");
  }
}

}  // namespace bitrift::inject
