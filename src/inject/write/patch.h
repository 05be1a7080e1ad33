// The bytes of a file that an injection changes, before and after.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "ckpt/reader.h"
#include "core/file_run.h"
#include "record/fault/fault_list.h"

namespace bitrift::inject {

/// Ranges of bytes, sorted by offset, never overlapping. The file becomes longer only if filtered chunks take
/// more space than before.
struct Patch {
  struct Range {
    std::uint64_t offset = 0;  ///< in the file
    std::uint64_t bytes = 0;
    std::uint64_t at = 0;  ///< place of its first byte in `before` and `after`
    [[nodiscard]] std::uint64_t end() const noexcept { return offset + bytes; }
  };
  std::vector<Range> ranges;
  std::vector<std::uint8_t> before, after;  ///< of all ranges, one after another
  std::vector<std::uint8_t> tail;           ///< appended to the file
  std::uint64_t file_bytes = 0;             ///< size of the file before; used only with a tail

  /// Appends a range, or lengthens the last one when this one follows it in the file. Both spans have the
  /// same size.
  void add(std::uint64_t offset, std::span<const std::uint8_t> old_bytes,
           std::span<const std::uint8_t> new_bytes);
  [[nodiscard]] std::span<const std::uint8_t> before_of(const Range& range) const noexcept {
    return {before.data() + range.at, range.bytes};
  }
  [[nodiscard]] std::span<const std::uint8_t> after_of(const Range& range) const noexcept {
    return {after.data() + range.at, range.bytes};
  }
  [[nodiscard]] bool empty() const noexcept { return ranges.empty() && tail.empty(); }
};

/// Computes the byte changes of faults; the stored CRC-32C is updated for faults of the plane value, and
/// HDF5's own checksums always. Filtered chunks are decoded and encoded on all cores. Checks that the file
/// still holds each fault's old pattern; throws Error(conflict) with the first that differs. Throws
/// Error(unsupported) when filters would not preserve other values.
[[nodiscard]] Patch make_patch(const ckpt::Reader& reader, const record::FaultList& faults);
[[nodiscard]] Patch make_patch(const ckpt::Reader& reader, const std::vector<record::AppliedFault>& faults);
/// The files that a patch alters, as numbers of parts; 0 for a single file.
[[nodiscard]] std::set<std::size_t> altered_parts(const Patch& patch, const FileList& files);

}  // namespace bitrift::inject
