// A file whose contents are not trusted: every read is checked against the file's size.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/file.h"

namespace bitrift::archive {

/// An open file and its size, or a part of one. Any number of threads.
class BoundedFile {
 public:
  /// Throws Error(not_found | io), Error(bad_file) for what is not a regular file.
  explicit BoundedFile(const std::filesystem::path& path);
  /// An open file, under this name in messages.
  BoundedFile(FileDescriptor fd, std::string name);
  /// These bytes of the file, counted from 0, under another name. Throws Error(bad_file) if it does not have
  /// them.
  [[nodiscard]] BoundedFile part(std::uint64_t first, std::uint64_t bytes, std::string name) const;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// From now on, reads as if this bit of the file were the other one; the file itself stays.
  void flip(std::uint64_t offset, unsigned bit) noexcept { flipped_ = {offset, std::uint8_t(1U << bit)}; }
  /// Throws Error(bad_file), "<name>: <what> (N bytes at byte M) lies outside of the file of K bytes".
  void check(std::uint64_t offset, std::uint64_t bytes, std::string_view what) const;
  /// Throws also Error(io).
  void read(std::uint64_t offset, std::span<std::uint8_t> out, std::string_view what) const;
  [[nodiscard]] std::vector<std::uint8_t> read(std::uint64_t offset, std::uint64_t bytes,
                                               std::string_view what) const;

 private:
  BoundedFile() = default;

  std::string name_;
  std::shared_ptr<const FileDescriptor> fd_;
  std::uint64_t first_ = 0;  ///< where it begins in the file
  std::uint64_t size_ = 0;
  std::pair<std::uint64_t, std::uint8_t> flipped_;  // a byte, and what it is XORed with
};

/// A name from a file, for a message: at most 80 characters, "?" for each that is not printable ASCII.
[[nodiscard]] std::string printable(std::string_view name);

}  // namespace bitrift::archive
