// The bytes of an HDF5 file, with every access checked against their end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/byte_cursor.h"
#include "core/file.h"

namespace bitrift::h5map {

/// "Undefined address" of the HDF5 file format: all bits set.
inline constexpr std::uint64_t undefined = ~std::uint64_t{0};

/// A file opened read-only, or bytes in memory. Sizes and addresses in a file are untrusted: code that
/// follows them uses this class. Not thread-safe.
class Source {
 public:
  /// Throws Error(not_found | io), Error(bad_file) when it is not a regular file.
  explicit Source(const std::filesystem::path& path);
  Source(std::vector<std::uint8_t> bytes, std::string name);
  /// An open file, under this name in messages.
  Source(FileDescriptor fd, std::string name);
  /// An HDF5 file inside of another file, whose bytes [first, end) it is: what is before counts as a user
  /// block. Throws as the first does, and Error(bad_file) when the file does not have these bytes.
  Source(const std::filesystem::path& path, std::uint64_t first, std::uint64_t end);
  ~Source();
  Source(Source&&) noexcept;
  Source& operator=(Source&&) noexcept;

  [[nodiscard]] std::uint64_t size() const noexcept;
  /// The first place where the signature can be.
  [[nodiscard]] std::uint64_t first() const noexcept;
  /// The path as the user gave it, for messages.
  [[nodiscard]] const std::string& name() const noexcept;
  /// Reads bytes [offset, offset + out.size()). `what` names the structure there, in a word or two, for the
  /// message: throws Error(bad_file, "<name>: <what> at byte <offset> reaches beyond the file's <size>
  /// bytes"), Error(io).
  void read(std::uint64_t offset, std::span<std::uint8_t> out, std::string_view what) const;
  [[nodiscard]] std::vector<std::uint8_t> read(std::uint64_t offset, std::uint64_t count,
                                               std::string_view what) const;
  /// Throws in the same cases as read(), but reads nothing.
  void check(std::uint64_t offset, std::uint64_t count, std::string_view what) const;

  /// Called before every read; it may throw to stop the reader. There is one at a time, and an empty one
  /// removes it.
  using Watch = std::function<void(std::uint64_t offset, std::uint64_t count, std::string_view what)>;
  void watch(Watch watch) const;
  /// Shows the watch bytes that are known to be `what` but need not be read. Bytes beyond the end are left
  /// out.
  void note(std::uint64_t offset, std::uint64_t count, std::string_view what) const;
  /// Tells the watch that a reader keeps this many bytes of what it made from the file.
  void spend(std::uint64_t bytes) const;

 private:
  struct State;
  void copy(std::uint64_t offset, std::span<std::uint8_t> out) const;
  std::unique_ptr<State> state_;
};

/// A cursor with the only kind of field that is specific to HDF5.
class Cursor : public ByteCursor {
 public:
  using ByteCursor::ByteCursor;
  /// An address of `bytes` bytes, relative to the file's base address; `undefined` when all its bits are set.
  [[nodiscard]] std::uint64_t address(unsigned bytes);
};

}  // namespace bitrift::h5map
