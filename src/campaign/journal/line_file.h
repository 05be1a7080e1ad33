// An append-only text file of whole lines that survives being killed at any moment.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "core/file.h"

namespace bitrift::campaign {

/// Lines are appended with one write each and synced in groups. A last line without its line end (the writer
/// died) is cut off when the file is opened, before anything is appended: otherwise the next line would be
/// joined to it and both lost.
class LineFile {
 public:
  /// Opens or creates the file. Throws Error(io).
  explicit LineFile(std::filesystem::path path);
  ~LineFile();  ///< syncs; never throws
  LineFile(LineFile&&) = delete;
  LineFile& operator=(LineFile&&) = delete;

  /// Appends `line` and a line end; `line` must not contain one. A write that fails or is cut short is taken
  /// back. Throws Error(io) that names the file and the reason.
  void append(std::string_view line);
  /// fdatasync, when something was appended since the last one. Throws Error(io).
  void sync();
  /// Calls sync() when the oldest unsynced line is at least 100 ms old; if this is called at least every 100
  /// ms, syncs are at most 200 ms apart.
  void sync_if_due();
  /// How many bytes of a torn last line were cut off at the start.
  [[nodiscard]] std::uint64_t torn_bytes() const noexcept { return torn_bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  FileDescriptor fd_;
  std::uint64_t size_ = 0;
  std::uint64_t torn_bytes_ = 0;
  bool dirty_ = false;
  std::chrono::steady_clock::time_point dirty_since_;
};

}  // namespace bitrift::campaign
