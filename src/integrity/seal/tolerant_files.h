// Files that may have become shorter, or be gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/file_run.h"

namespace bitrift::integrity {

/// The bytes of files as they were once, counted through: what is missing now reads as zeros. Thread-safe.
class TolerantFiles {
 public:
  /// `files` with their former sizes, of `bytes` bytes together. Throws Error(io) for a file that is there
  /// and cannot be opened.
  TolerantFiles(FileList files, std::uint64_t bytes);

  [[nodiscard]] const FileList& files() const noexcept { return files_; }
  /// The size of a file now; nullopt if it is gone.
  [[nodiscard]] std::optional<std::uint64_t> bytes_now(std::size_t part) const noexcept;
  /// Bytes after the former end read as zeros, too. Throws Error(io).
  void read(std::uint8_t* out, std::size_t bytes, std::uint64_t offset) const;
  /// Whatever a change of a file alters: its number, size, and time of the last change.
  [[nodiscard]] std::string stamp() const;

 private:
  struct Open {
    FileDescriptor fd;  ///< none if there are so many files that each read opens its own
    std::filesystem::path path;
    std::uint64_t first = 0, end = 0;  ///< of its former bytes, counted through
    std::optional<std::uint64_t> now;
  };
  FileList files_;
  std::vector<Open> open_;
};

}  // namespace bitrift::integrity
