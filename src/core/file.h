// Files that are never half-written: descriptors, locks, copies and atomic replacement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace bitrift {

/// An owned POSIX file descriptor. Move-only.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept;
  void close() noexcept;

 private:
  int fd_ = -1;
};

/// open(2) with O_CLOEXEC. Throws Error(not_found | io) that names the path.
[[nodiscard]] FileDescriptor open_file(const std::filesystem::path& path, int flags, unsigned mode = 0666);
/// Bytes of an open file. Throws Error(io) that names the path.
[[nodiscard]] std::uint64_t size_of(const FileDescriptor& fd, const std::filesystem::path& path);
/// Reads / writes exactly size bytes at offset, or throws Error(io | bad_file) that names the path.
void read_at(const FileDescriptor& fd, void* data, std::size_t size, std::uint64_t offset,
             const std::filesystem::path& path);
void write_at(const FileDescriptor& fd, const void* data, std::size_t size, std::uint64_t offset,
              const std::filesystem::path& path);
/// fsync of a descriptor / of the folder that holds a path. Throws Error(io).
void sync_file(const FileDescriptor& fd, const std::filesystem::path& path);
void sync_folder_of(const std::filesystem::path& path);

/// Takes flock(LOCK_EX | LOCK_NB); throws Error(busy) that names the path when another process holds it. HDF5
/// holds a shared lock while a file is open for reading, so this detects other users of HDF5 too (except
/// those that switched locking off). Released when the descriptor closes.
void lock_exclusive(const FileDescriptor& fd, const std::filesystem::path& path);

/// Whole text of a file. Throws Error(not_found | io).
[[nodiscard]] std::string read_text(const std::filesystem::path& path);
/// Writes a temporary neighbour, syncs it, renames it over path, syncs the folder. On error nothing is left
/// behind and the old file is unchanged. Throws Error(io).
void replace_text(const std::filesystem::path& path, std::string_view text);
/// As replace_text, but only if nothing has that name: when several programs publish a name at once, on one
/// machine or on several that share the folder, exactly one gets true, and the texts of all others are
/// dropped. Needs a file system with hard links, or with renameat2(2) and RENAME_NOREPLACE. Throws Error(io).
[[nodiscard]] bool publish_text(const std::filesystem::path& path, std::string_view text);

/// A temporary neighbour of `target` that becomes it on commit() (sync, rename, sync folder) and is removed
/// otherwise. The name starts with "." + target's name + ".tmp-". The constructor creates the file itself,
/// empty, and removes those that killed programs left for this target. On a local file system, it holds a
/// lock on the file as long as this object lives, so that no other program mistakes it for such a leftover;
/// elsewhere locks may not reach other machines, and leftovers stay. Throws Error(bad_input) where the target
/// is a folder, a device, a pipe or a socket.
class PendingFile {
 public:
  explicit PendingFile(std::filesystem::path target);
  ~PendingFile();
  PendingFile(PendingFile&&) = delete;
  PendingFile& operator=(PendingFile&&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return temporary_; }
  [[nodiscard]] const std::filesystem::path& target() const noexcept { return target_; }
  void commit();
  /// Like commit(), but if the target's name exists already, leaves that file alone and returns false.
  [[nodiscard]] bool publish();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  FileDescriptor owned_;
  bool committed_ = false;
};

/// Removes the temporary files that killed programs left for the targets in `folder` whose names `of`
/// accepts; those of living programs stay. On file systems that are not local, all stay. An error is not
/// reported.
void remove_leftovers(const std::filesystem::path& folder, const std::function<bool(std::string_view)>& of);

/// Removes the temporary folders of this name (see TemporaryFolder) that killed programs left in $TMPDIR or
/// /tmp; those of living programs stay, and on file systems that are not local, all. first: is called with
/// each before it is removed. An error is not reported.
void remove_abandoned_folders(std::string_view name,
                              const std::function<void(const std::filesystem::path& folder)>& first);

/// A new folder, private to this user; it is removed with its contents at the end of the scope. One that a
/// killed program left is removed by the next of that name in that place. Throws Error(io).
class TemporaryFolder {
 public:
  /// "<name>.XXXXXX" among the system's temporary files: in $TMPDIR or /tmp.
  explicit TemporaryFolder(std::string_view name);
  /// "<name>-XXXXXX" in `parent`.
  TemporaryFolder(std::string_view name, const std::filesystem::path& parent);
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder&&) = delete;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  void make(const std::string& start, const std::filesystem::path& parent);

  std::filesystem::path path_;
  FileDescriptor lock_;
};

/// Copies a folder with all folders and files in it to a new one; links to files become files. Throws
/// Error(not_found | io), Error(unsupported) for links to folders, devices, pipes and sockets.
void copy_folder(const std::filesystem::path& from, const std::filesystem::path& to);

/// Copies the bytes of `from` over the existing or new file `to`: reflink where the file system can, else
/// copy_file_range, else read and write. Holes in `from` become holes in `to`. Throws Error(not_found | io).
void copy_file_bytes(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace bitrift
