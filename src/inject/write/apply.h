// Applies planned faults to a file, byte by byte at known offsets, and undoes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "core/file_run.h"
#include "record/fault/fault_list.h"

namespace bitrift::inject {

/// Copies `input` to `output` (atomic: temporary neighbour, verify, rename; no sync, as cp) and applies.
/// Never opens input for writing. Refuses output == input. A checkpoint in several files is copied with the
/// rest of its folder, into a new one.
void inject_copy(const std::filesystem::path& input, const std::filesystem::path& output,
                 const record::FaultList& faults);

/// The same copy, altered by `alter` before it takes its name; what `alter` throws removes it.
void copy_altered(const FileList& input, const std::filesystem::path& output,
                  const std::function<void(const FileRun& copy)>& alter);

/// Makes a file ready for an injection in place: an interrupted injection is undone, and reported through the
/// log. Call it before the file is read for a plan: half of an injection can leave structures that no reader
/// accepts, and values that disappear when it is undone. Does nothing without an undo journal. Throws
/// Error(conflict) when the journal's injection is complete (undo first), Error(busy | io | bad_file).
void take_back_unfinished(const std::filesystem::path& file);

/// Applies in place: exclusive lock, undo journal written and synced, then the bytes, then sync and verify.
/// Begins with take_back_unfinished(). Throws Error(busy | conflict | io | unsupported).
void inject_in_place(const std::filesystem::path& file, const record::FaultList& faults);

/// Undoes the last in-place injection, byte for byte, and removes the journal. Returns how many bytes were
/// restored. Throws Error(not_found) when there is nothing to undo, Error(conflict) when the file was changed
/// since.
std::uint64_t undo(const std::filesystem::path& file);

}  // namespace bitrift::inject
