// Writes the byte ranges of a patch to a file, and restores them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/file_run.h"
#include "inject/write/patch.h"

namespace bitrift::inject {

/// Writes the `after` (or, backwards, the `before`) bytes, appends (or cuts off) the tail, and reads back.
/// The file must hold the other side now: Error(conflict) otherwise, nothing written. For private copies; no
/// lock, no journal, no sync.
void write_patch(const FileRun& file, const Patch& patch, bool backwards);
/// As write_patch() forwards, but the caller has already compared the file with `before`.
void write_compared(const FileRun& file, const Patch& patch);

/// Calls `visit` with each range and the bytes that the file holds there now. Ranges that lie close together
/// are read at once. Throws Error(io | bad_file).
using RangeVisitor = std::function<void(const Patch::Range& range, const std::uint8_t* found)>;
void read_ranges(const FileRun& file, const std::vector<Patch::Range>& ranges, const RangeVisitor& visit);
/// Writes bytes (all of them as in Patch::before or after) to the ranges. If ranges are close together, the
/// bytes between them are read and written back unchanged. Throws Error(io | bad_file).
void write_ranges(const FileRun& file, const std::vector<Patch::Range>& ranges,
                  const std::vector<std::uint8_t>& bytes);

}  // namespace bitrift::inject
