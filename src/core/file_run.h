// A file, or several files whose bytes are counted through, as if they were one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/file.h"

namespace bitrift {

/// The names of one file, or of the files of a folder: the bytes of each follow those of the one before.
struct FileList {
  struct Part {
    std::string name;  ///< relative to `root`
    std::uint64_t bytes = 0;
    std::uint64_t first = 0;  ///< bytes of all parts before it
    [[nodiscard]] std::uint64_t end() const noexcept { return first + bytes; }
  };
  std::filesystem::path root;    ///< the file; the folder of the parts
  std::vector<Part> parts = {};  ///< empty: `root` is the only file

  [[nodiscard]] bool several() const noexcept { return !parts.empty(); }
  void add(std::string name, std::uint64_t bytes);
  /// The same files in a copy of the file or folder.
  [[nodiscard]] FileList in(std::filesystem::path copy) const;
  /// The part that holds a byte; 0 for a single file, the last part for bytes beyond all.
  [[nodiscard]] std::size_t part_of(std::uint64_t offset) const noexcept;
  [[nodiscard]] std::filesystem::path path_of(std::size_t part) const;
  /// A byte's offset in the file that holds it.
  [[nodiscard]] std::uint64_t within(std::uint64_t offset) const noexcept;
  /// "FILE: byte N", in the file that holds it.
  [[nodiscard]] std::string place(std::uint64_t offset) const;
};

/// Whether the name of a file, which another file states, is a relative path without ".." and without NUL.
[[nodiscard]] bool stays_in_folder(const std::string& name);

/// These files, each opened when it is first needed. For one thread. All members throw Error(not_found | io |
/// bad_file) that names a file.
class FileRun {
 public:
  /// `flags` as for open(2). A single file is opened at once.
  FileRun(FileList files, int flags);

  [[nodiscard]] const FileList& files() const noexcept { return files_; }
  void read(void* data, std::size_t size, std::uint64_t offset) const;
  void write(const void* data, std::size_t size, std::uint64_t offset) const;
  /// The size of all files together, now.
  [[nodiscard]] std::uint64_t bytes() const;
  /// For a single file.
  void truncate(std::uint64_t bytes) const;
  /// Syncs the files that are open.
  void sync() const;
  /// Locks all files as bitrift::lock_exclusive() does.
  void lock() const;
  /// Reports what a network file system could not write.
  void close();
  /// The descriptor of a part, which is opened if it is not.
  [[nodiscard]] const FileDescriptor& part(std::size_t index) const;

 private:
  template <typename Transfer>
  void each(std::size_t size, std::uint64_t offset, Transfer transfer) const;

  FileList files_;
  int flags_;
  mutable std::vector<FileDescriptor> open_;
};

}  // namespace bitrift
