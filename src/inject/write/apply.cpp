#include "inject/write/apply.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/reader.h"
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

Stamp stamp_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

Stamp stamp_of(const FileDescriptor& fd, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail(ErrorCode::io, "{}: {}", path.string(), errno_text(errno));
  return stamp_of(status);
}

FileDescriptor open_locked(const std::filesystem::path& file) {
  FileDescriptor fd = open_file(file, O_RDWR);
  lock_exclusive(fd, file);
  return fd;
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
void refuse_other_names(const std::filesystem::path& file) {
  std::error_code none;
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

/// Writes the patch, which was compared with the file; if that fails half-way, restores the old bytes.
void write_or_restore(const FileDescriptor& fd, const std::filesystem::path& file,
                      const UndoJournal& journal) {
  try {
    write_compared(fd, file, journal.patch);
    sync_file(fd, file);
  } catch (const Error& error) {
    try {
      take_back(journal, fd, file);
      remove_journal(file);
    } catch (const Error& second) {
      fail(error.code(), "{}; restoring the old bytes also failed ({}): run bitrift undo {}", error.what(),
           second.what(), file.string());
    }
    throw;
  }
}

/// A network file system reports here at the latest what it could not write.
void close_checked(FileDescriptor& fd, const std::filesystem::path& path) {
  if (::close(fd.release()) != 0)
    fail(ErrorCode::io, "cannot write {}: {}", path.string(), errno_text(errno));
}

/// As PendingFile::commit(), but does not wait for the disk, like cp: 1 GB would take half as long again, and
/// a file that a power failure destroys can be made again from the input.
void take_name(const PendingFile& pending) {
  if (::rename(pending.path().c_str(), pending.target().c_str()) != 0) {
    fail(ErrorCode::io, "cannot replace {}: {}", pending.target().string(), errno_text(errno));
  }
}

void refuse_output(const std::filesystem::path& input, const std::filesystem::path& output) {
  std::error_code ignored;
  if (std::filesystem::equivalent(input, output, ignored)) {
    fail(ErrorCode::bad_input, "{}: is the input file; give another output, or --in-place", output.string());
  }
  if (std::filesystem::is_directory(output)) {
    fail(ErrorCode::bad_input, "{}: is a directory; name the file to write", output.string());
  }
  if (has_journal(output)) {
    fail(ErrorCode::conflict,
         "{}: holds an in-place injection that {} can undo; undo it or choose another output",
         output.string(), undo_path(output).string());
  }
}

}  // namespace

void copy_altered(
    const std::filesystem::path& input, const std::filesystem::path& output,
    const std::function<void(const FileDescriptor& fd, const std::filesystem::path& copy)>& alter) {
  refuse_output(input, output);
  PendingFile pending(output);
  copy_file_bytes(input, pending.path());
  if (std::filesystem::file_size(input) != std::filesystem::file_size(pending.path())) {
    fail(ErrorCode::io, "{}: the copy came out shorter or longer than {}", output.string(), input.string());
  }
  FileDescriptor fd = open_file(pending.path(), O_RDWR);
  alter(fd, pending.path());
  close_checked(fd, output);
  keep_mode(input, output, pending.path());
  take_name(pending);
}

void inject_copy(const std::filesystem::path& input, const std::filesystem::path& output,
                 const record::FaultList& faults) {
  refuse_output(input, output);      // before a patch is computed in vain
  const ckpt::Reader reader(input);  // its shared lock keeps writers out until the copy is done
  refuse_open_elsewhere(reader);
  const Patch patch = make_patch(reader, faults);
  copy_altered(input, output, [&](const FileDescriptor& fd, const std::filesystem::path& copy) {
    write_patch(fd, copy, patch, false);
  });
}

void take_back_unfinished(const std::filesystem::path& file) {
  if (!has_journal(file)) return;
  const FileDescriptor fd = open_locked(file);
  const UndoJournal journal = read_journal(file);
  if (compare_with(journal, fd, file) == UndoState::complete) {
    fail(ErrorCode::conflict, "{}: already holds an injection; undo it first (bitrift undo {})",
         file.string(), file.string());
  }
  const std::uint64_t restored = take_back(journal, fd, file);
  remove_journal(file);
  spdlog::warn("{}: an earlier injection was interrupted; {} bytes were restored", file.string(), restored);
}

void inject_in_place(const std::filesystem::path& file, const record::FaultList& faults) {
  refuse_other_names(file);
  take_back_unfinished(file);
  UndoJournal journal;
  Stamp planned;
  {
    // HDF5 holds a shared lock while it has the file open, so it must be closed before ours is taken.
    const ckpt::Reader reader(file);
    refuse_open_elsewhere(reader);
    planned = stamp_of(open_file(file, O_RDONLY), file);
    journal.patch = make_patch(reader, faults);
  }
  if (journal.patch.empty()) return;
  const FileDescriptor fd = open_locked(file);
  if (stamp_of(fd, file) != planned || has_journal(file)) {
    fail(ErrorCode::conflict,
         "{}: was changed by another program in the meantime; nothing was written, try again", file.string());
  }
  journal.file_bytes = static_cast<std::uint64_t>(planned.bytes);
  journal.patch.file_bytes = journal.file_bytes;
  if (compare_with(journal, fd, file) != UndoState::untouched) {
    fail(ErrorCode::conflict,
         "{}: was changed by another program in the meantime; nothing was written, try again", file.string());
  }
  write_journal(file, journal);
  write_or_restore(fd, file, journal);
}

std::uint64_t undo(const std::filesystem::path& file) {
  const FileDescriptor fd = open_locked(file);
  const UndoJournal journal = read_journal(file);
  const std::uint64_t restored = take_back(journal, fd, file);
  remove_journal(file);
  return restored;
}

}  // namespace bitrift::inject
