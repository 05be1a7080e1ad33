// New contents for members of a zip archive, and what else of it must change with them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "archive/zip_directory.h"

namespace bitrift::archive {

/// Collects alterations of one archive and says which bytes they come to, so that every reader takes it for
/// sound: the CRC-32 of an altered member follows wherever it is written. A CRC-32 that was not computed (0,
/// and not that of the data) stays 0. A deflated member that does not grow stays where it is; one that grows
/// moves to where the central directory was, which then comes behind it, and its old bytes become unused. The
/// file itself is only read. File and directory must outlive it.
class ZipRewrite {
 public:
  ZipRewrite(const BoundedFile& file, const ZipDirectory& directory);

  /// Bytes of a stored member change, `difference` being old XOR new. `offset` is that of the first of them
  /// in the file; where no stored member has it, nothing follows.
  void change(std::uint64_t offset, std::span<const std::uint8_t> difference);
  /// Gives a deflated member, whose data begins at `data`, new stored bytes and the CRC-32 of what they hold.
  void replace(std::uint64_t data, std::vector<std::uint8_t> stored, std::uint32_t crc32);

  /// Bytes by their offset, none overlapping, none on both sides of the old end of the file. Throws
  /// Error(unsupported) where a size or place does not fit the bytes that the archive has for it.
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
  std::optional<bool> without_crc32_;  ///< no member has one; known when it was asked for
  std::vector<std::uint8_t> moved_;    ///< what comes where the central directory was
};

}  // namespace bitrift::archive
