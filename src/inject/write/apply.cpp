#include "inject/write/apply.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/reader.h"
#include "ckpt/set/file_set.h"
#include "core/error.h"
#include "core/log.h"
#include "inject/write/patch.h"
#include "inject/write/undo_journal.h"
#include "inject/write/write_patch.h"

namespace bitrift::inject {
namespace {

/// Distinguishes states of a file without reading it.
struct Stamp {
  dev_t device = 0;
  ino_t inode = 0;
  off_t bytes = 0;
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  bool operator==(const Stamp&) const = default;
};

/// One for each file.
std::vector<Stamp> stamps_of(const FileRun& file) {
  std::vector<Stamp> stamps;
  for (std::size_t i = 0; i < std::max<std::size_t>(file.files().parts.size(), 1); ++i) {
    struct stat now {};
    if (::fstat(file.part(i).get(), &now) != 0)
      fail(ErrorCode::io, "{}: {}", file.files().path_of(i).string(), errno_text(errno));
    stamps.push_back({now.st_dev, now.st_ino, now.st_size, now.st_mtim.tv_sec, now.st_mtim.tv_nsec});
  }
  return stamps;
}

/// The files that a journal is about, locked, and the journal as it is then.
std::pair<FileRun, UndoJournal> open_locked(const std::filesystem::path& file) {
  FileRun run({ckpt::root_of_set(file), read_journal(file).parts}, O_RDWR);
  run.lock();
  return {std::move(run), read_journal(file)};
}

bool has_journal(const std::filesystem::path& file) {
  std::error_code none;
  return std::filesystem::exists(undo_path(file), none);
}

/// HDF5 gives its lock back while a program writes and lets others read (SWMR), and then only a mark in the
/// file shows it.
void refuse_open_elsewhere(const ckpt::Reader& reader) {
  if (!reader.container().marked_open()) return;
  fail(ErrorCode::busy,
       "{}: is marked as open for writing; close it there, or, when no program has it open, clear the mark "
       "with "
       "h5clear -s",
       reader.path().string());
}

/// A journal belongs to one name: under other names nobody would see that the file is altered.
void refuse_other_names(const std::filesystem::path& file, bool in_folder) {
  std::error_code none;
  if (in_folder && std::filesystem::is_symlink(file, none)) {
    fail(ErrorCode::unsupported,
         "{}: is a symbolic link to a file outside of the folder; write a copy (-o OUT)", file.string());
  }
  const auto names = std::filesystem::hard_link_count(file, none);
  if (none || names < 2) return;
  fail(ErrorCode::unsupported,
       "{}: has {} names (hard links), so all of them would be altered; write a copy (-o OUT)", file.string(),
       names);
}

/// A replacement of a file has its mode; a new file has no more rights than the file that it copies.
void keep_mode(const std::filesystem::path& input, const std::filesystem::path& output,
               const std::filesystem::path& pending) {
  using std::filesystem::perms;
  std::error_code none;
  const auto there = std::filesystem::status(output, none);
  const perms fresh = std::filesystem::status(pending).permissions();
  const perms wanted = std::filesystem::exists(there) ? there.permissions()
                                                      : std::filesystem::status(input).permissions() & fresh;
  std::filesystem::permissions(pending, wanted & (perms::owner_all | perms::group_all | perms::others_all),
                               none);
  if (none) fail(ErrorCode::io, "{}: its mode cannot be set: {}", output.string(), none.message());
}

void refuse_other_names(const FileList& files, const Patch& patch) {
  for (const std::size_t part : altered_parts(patch, files)) refuse_other_names(files.path_of(part), true);
}

/// Writes the patch, which was compared with the file; if that fails half-way, restores the old bytes.
void write_or_restore(const FileRun& run, const std::filesystem::path& file, const UndoJournal& journal) {
  try {
    write_compared(run, journal.patch);
    run.sync();
  } catch (const Error& error) {
    try {
      take_back(journal, run);
      remove_journal(file);
    } catch (const Error& second) {
      fail(error.code(), "{}; restoring the old bytes also failed ({}): run bitrift undo {}", error.what(),
           second.what(), file.string());
    }
    throw;
  }
}

/// As PendingFile::commit(), but does not wait for the disk, like cp: 1 GB would take half as long again, and
/// a file that a power failure destroys can be made again from the input.
void take_name(const PendingFile& pending) {
  if (::rename(pending.path().c_str(), pending.target().c_str()) != 0) {
    fail(ErrorCode::io, "cannot replace {}: {}", pending.target().string(), errno_text(errno));
  }
}

void refuse_output(const FileList& input, const std::filesystem::path& output) {
  std::error_code ignored;
  if (std::filesystem::equivalent(input.root, output, ignored)) {
    fail(ErrorCode::bad_input, "{}: is the input file; give another output, or --in-place", output.string());
  }
  if (input.several()) {
    if (std::filesystem::exists(output) && !std::filesystem::is_empty(output, ignored))
      fail(ErrorCode::bad_input, "{}: exists already; name a new folder for the copy", output.string());
    const auto inside =
        std::filesystem::weakly_canonical(output).lexically_relative(std::filesystem::canonical(input.root));
    if (!inside.empty() && *inside.begin() != "..")
      fail(ErrorCode::bad_input, "{}: is inside of the folder to copy; name another output", output.string());
  } else if (std::filesystem::is_directory(output)) {
    fail(ErrorCode::bad_input, "{}: is a directory; name the file to write", output.string());
  }
  if (has_journal(output)) {
    fail(ErrorCode::conflict,
         "{}: holds an in-place injection that {} can undo; undo it or choose another output",
         output.string(), undo_path(output).string());
  }
}

}  // namespace

namespace {

/// The copy becomes visible when it is complete; a folder that is there already is never mixed with it.
void copy_folder_altered(const FileList& input, const std::filesystem::path& output,
                         const std::function<void(const FileRun& copy)>& alter) {
  const auto target = output.has_filename() ? output : output.parent_path();
  const auto parent = target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
  const TemporaryFolder scratch("." + target.filename().string() + ".tmp", parent);
  const auto pending = scratch.path() / "copy";
  copy_folder(input.root, pending);
  FileRun copy(input.in(pending), O_RDWR);
  alter(copy);
  copy.close();
  if (::rename(pending.c_str(), target.c_str()) != 0)
    fail(ErrorCode::io, "cannot make {}: {}", target.string(), errno_text(errno));
}

}  // namespace

void copy_altered(const FileList& input, const std::filesystem::path& output,
                  const std::function<void(const FileRun& copy)>& alter) {
  refuse_output(input, output);
  if (input.several()) return copy_folder_altered(input, output, alter);
  PendingFile pending(output);
  copy_file_bytes(input.root, pending.path());
  if (std::filesystem::file_size(input.root) != std::filesystem::file_size(pending.path())) {
    fail(ErrorCode::io, "{}: the copy came out shorter or longer than {}", output.string(),
         input.root.string());
  }
  FileRun copy({pending.path()}, O_RDWR);
  alter(copy);
  copy.close();
  keep_mode(input.root, output, pending.path());
  take_name(pending);
}

void inject_copy(const std::filesystem::path& input, const std::filesystem::path& output,
                 const record::FaultList& faults) {
  const ckpt::Reader reader(input);       // its shared lock keeps writers out until the copy is done
  refuse_output(reader.files(), output);  // before a patch is computed in vain
  refuse_open_elsewhere(reader);
  const Patch patch = make_patch(reader, faults);
  copy_altered(reader.files(), output, [&](const FileRun& copy) { write_patch(copy, patch, false); });
}

void take_back_unfinished(const std::filesystem::path& file) {
  if (!has_journal(file)) return;
  const auto [run, journal] = open_locked(file);
  if (compare_with(journal, run) == UndoState::complete) {
    fail(ErrorCode::conflict, "{}: already holds an injection; undo it first (bitrift undo {})",
         file.string(), file.string());
  }
  const std::uint64_t restored = take_back(journal, run);
  remove_journal(file);
  spdlog::warn("{}: an earlier injection was interrupted; {} bytes were restored", file.string(), restored);
}

void inject_in_place(const std::filesystem::path& file, const record::FaultList& faults) {
  if (!std::filesystem::is_directory(ckpt::root_of_set(file))) refuse_other_names(file, false);
  take_back_unfinished(file);
  UndoJournal journal;
  std::vector<Stamp> planned;
  FileList files;
  {
    // HDF5 holds a shared lock while it has the file open, so it must be closed before ours is taken.
    const ckpt::Reader reader(file);
    refuse_open_elsewhere(reader);
    files = reader.files();
    planned = stamps_of(FileRun(files, O_RDONLY));
    journal.patch = make_patch(reader, faults);
  }
  if (journal.patch.empty()) return;
  if (files.several()) refuse_other_names(files, journal.patch);
  const FileRun run(files, O_RDWR);
  run.lock();
  const auto refuse_changed = [&] {
    fail(ErrorCode::conflict,
         "{}: was changed by another program in the meantime; nothing was written, try again", file.string());
  };
  if (stamps_of(run) != planned || has_journal(file)) refuse_changed();
  journal.parts = files.parts;
  for (const Stamp& stamp : planned) journal.file_bytes += static_cast<std::uint64_t>(stamp.bytes);
  journal.patch.file_bytes = journal.file_bytes;
  if (compare_with(journal, run) != UndoState::untouched) refuse_changed();
  write_journal(file, journal);
  write_or_restore(run, file, journal);
}

std::uint64_t undo(const std::filesystem::path& file) {
  const auto [run, journal] = open_locked(file);
  const std::uint64_t restored = take_back(journal, run);
  remove_journal(file);
  return restored;
}

}  // namespace bitrift::inject
