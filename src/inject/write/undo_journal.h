// The undo journal of an in-place injection: the bytes that it changes, before and after.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/file_run.h"
#include "inject/write/patch.h"

namespace bitrift::inject {

/// Contents of "<file>.undo" (docs/faults.md, "Undo journal"): written and synced before the first byte of
/// the file changes, removed after the last one is back.
struct UndoJournal {
  std::uint64_t file_bytes = 0;  ///< size of the file before, which only a tail of the patch changes
  /// The files of a checkpoint in several: names and sizes, in the order in which its bytes are counted.
  std::vector<FileList::Part> parts = {};
  Patch patch;
};

/// The state of the file's bytes with respect to a journal.
enum class UndoState { untouched, partly, complete };

/// The undo journal of a file: "<file>.undo"; for a symbolic link, that of the file it points to; for a
/// folder or an index in it, "<folder>.undo".
[[nodiscard]] std::filesystem::path undo_path(const std::filesystem::path& file);

/// Writes the journal under its name, synced. Throws Error(io).
void write_journal(const std::filesystem::path& file, const UndoJournal& journal);
/// Throws Error(not_found) when the file has none, Error(bad_file) when it is damaged, Error(unsupported)
/// when it is of another schema.
[[nodiscard]] UndoJournal read_journal(const std::filesystem::path& file);
/// Removes it, synced. Throws Error(io).
void remove_journal(const std::filesystem::path& file);

/// Compares byte by byte, because an interrupted write may end anywhere, even inside of an element. Throws
/// Error(conflict) when some byte is neither the old nor the new one, or the size is not between the two.
[[nodiscard]] UndoState compare_with(const UndoJournal& journal, const FileRun& file);
/// Restores the bytes that differ, syncs, and reads them back. Returns how many bytes differed. Throws as
/// compare_with() does, before anything is written, and Error(io).
std::uint64_t take_back(const UndoJournal& journal, const FileRun& file);

}  // namespace bitrift::inject
