// Applying planned faults to a file, byte by byte at known offsets, and taking them back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/file.h"
#include "inject/plan.h"

namespace bitrift::inject {

/// Bytes of a file before and after; sorted by offset, never overlapping. Only where filtered chunks take
/// more room than before is the file longer afterwards.
struct Patch {
  struct Range {
    std::uint64_t offset = 0;
    std::vector<std::uint8_t> before, after;
  };
  std::vector<Range> ranges;
  std::vector<std::uint8_t> tail;  ///< appended to the file
  std::uint64_t file_bytes = 0;    ///< size of the file before; matters with a tail only

  [[nodiscard]] bool empty() const noexcept { return ranges.empty() && tail.empty(); }
};

/// Works out the byte changes of a plan; the stored CRC-32C follows faults of the plane value, and HDF5's own
/// checksums always. Filtered chunks are decoded and encoded on all cores. Checks that the file still holds
/// each fault's old pattern; throws Error(conflict) with the first that differs. Throws Error(unsupported)
/// when filters would not keep other values.
[[nodiscard]] Patch make_patch(const ckpt::Reader& reader, const std::vector<record::AppliedFault>& faults);

/// Writes the `after` (or, backwards, the `before`) bytes, appends (or cuts off) the tail, and reads back.
/// The other side must be what the file holds now: Error(conflict) otherwise, nothing written. For private
/// copies; no lock, no journal, no sync.
void write_patch(const FileDescriptor& fd, const std::filesystem::path& path, const Patch& patch,
                 bool backwards);

/// Copies `input` to `output` (atomic: temporary neighbour, verify, sync, rename) and applies. Never opens
/// input for writing. Refuses output == input.
void inject_copy(const std::filesystem::path& input, const std::filesystem::path& output,
                 const std::vector<record::AppliedFault>& faults);

/// Applies in place: exclusive lock, undo journal written and synced, then the bytes, then sync and verify.
/// An undo journal of an injection that was cut short is finished off first (taken back), and reported
/// through the log; one of a complete injection is refused (undo first). Throws Error(busy | conflict | io |
/// unsupported).
void inject_in_place(const std::filesystem::path& file, const std::vector<record::AppliedFault>& faults);

/// Takes the last in-place injection back, byte for byte, and removes the journal. Returns how many bytes
/// were restored. Throws Error(not_found) when there is nothing to undo, Error(conflict) when the file was
/// changed since.
std::uint64_t undo(const std::filesystem::path& file);

/// Where the undo journal of a file lies: "<file>.undo", of the file itself when `file` is a symbolic link.
[[nodiscard]] std::filesystem::path undo_path(const std::filesystem::path& file);

}  // namespace bitrift::inject
