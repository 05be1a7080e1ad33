// New contents for members of a zip archive, and the other bytes that must change with them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "archive/zip_directory.h"

namespace bitrift::archive {

/// Collects alterations of one archive and returns the bytes to write, so that every reader accepts it: the
/// CRC-32 of an altered member is updated wherever it is written. A CRC-32 that was not computed (0, and not
/// that of the data) stays 0. A deflated member that does not grow keeps its place. One that grows moves to
/// the place of the central directory, which then follows it, and its old bytes become unused. The file
/// itself is only read. File and directory must outlive it.
class ZipRewrite {
 public:
  ZipRewrite(const BoundedFile& file, const ZipDirectory& directory);

  /// Alters bytes of a stored member; `difference` is old XOR new. `offset` is the place of the first of them
  /// in the file; if no stored member has it, nothing else changes.
  void change(std::uint64_t offset, std::span<const std::uint8_t> difference);
  /// The same from the old and the new bytes, which are equally many.
  void change(std::uint64_t offset, std::span<const std::uint8_t> before,
              std::span<const std::uint8_t> after);
  /// Gives a deflated member, whose data begins at `data`, new stored bytes and the CRC-32 of their content.
  void replace(std::uint64_t data, std::vector<std::uint8_t> stored, std::uint32_t crc32);

  /// Bytes by their offset, none overlapping, none on both sides of the old end of the file. Throws
  /// Error(unsupported) if a size or place does not fit the bytes that the archive has for it.
  [[nodiscard]] std::map<std::uint64_t, std::vector<std::uint8_t>> finish();

 private:
  struct NewContents {
    std::uint32_t crc32 = 0;
    bool follows = true;  ///< the CRC-32
    bool replaced = false;
    std::vector<std::uint8_t> stored;  ///< where replaced
  };

  [[nodiscard]] std::size_t member_at(std::uint64_t offset) const;
  [[nodiscard]] bool has_crc32(const ZipMember& member);
  [[nodiscard]] bool is_crc32_of(const ZipMember& member) const;
  void put(const ZipField& field, std::uint64_t value);
  void put_sizes(const ZipMember& member, const NewContents& contents);
  void move(const ZipMember& member, const NewContents& contents);
  void append_end();

  const BoundedFile& file_;
  const ZipDirectory& directory_;
  std::map<std::size_t, NewContents> members_;
  std::map<std::uint64_t, std::vector<std::uint8_t>> changes_;
  std::optional<bool> without_crc32_;     ///< no member has one; found out when it is needed
  std::vector<std::uint8_t> difference_;  ///< of the last change
  std::vector<std::uint8_t> moved_;       ///< the bytes that replace the central directory
};

}  // namespace bitrift::archive
