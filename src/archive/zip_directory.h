// The directory of a zip archive: its members, and the offsets of every field that describes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "archive/bounded_file.h"

namespace bitrift::archive {

/// Little-endian field of a file; 0 bytes: there is none.
struct ZipField {
  std::uint64_t offset = 0;
  unsigned bytes = 0;
};

/// Where one header states the checksum and the size of a member.
struct ZipFields {
  ZipField crc32, stored_bytes;
};

/// One member. Its bytes, [header, end), are inside the file and before the central directory.
struct ZipMember {
  std::string name;
  std::uint64_t header = 0;        ///< of its local header
  std::uint64_t data = 0;          ///< of its stored bytes
  std::uint64_t stored_bytes = 0;  ///< as stored
  std::uint64_t bytes = 0;         ///< decoded
  std::uint64_t end = 0;           ///< the end of the data descriptor or, without one, of the data
  std::uint32_t crc32 = 0;         ///< of the decoded bytes, as the central directory has it
  bool deflated = false;
  std::string problem;          ///< one line: why its bytes cannot be read; "" if they can
  std::vector<ZipFields> said;  ///< in the local header or the data descriptor, and the central directory
  ZipField header_field;        ///< in the central directory: the place of the local header

  [[nodiscard]] std::uint64_t descriptor_bytes() const noexcept { return end - data - stored_bytes; }
};

/// The parts after the last member.
struct ZipTail {
  std::uint64_t central = 0;      ///< where the central directory begins
  std::uint64_t central_end = 0;  ///< where the central directory ends, which is where the records of the
                                  ///< archive's end begin
  std::uint64_t end = 0;          ///< the end of those records; padding may follow
  /// Where the archive's end states `central`: 4 bytes, and 8 in archives with ZIP64 records.
  std::vector<ZipField> central_fields;
  ZipField end64_field;  ///< in the ZIP64 locator: the place of the ZIP64 record
};

/// Reads the directory of a zip archive (APPNOTE.TXT 6.3.10, ZIP64 and data descriptors included), and trusts
/// nothing in it: central directory and local headers must agree, members must not overlap, and the directory
/// must end where the archive's end begins. Bytes after the archive's end are padding, as for other readers:
/// up to 64 KiB, minus its comment.
class ZipDirectory {
 public:
  /// Throws Error(bad_file) for damage and contradictions, two members of one name included;
  /// Error(unsupported) for archives of several disks and encrypted members.
  explicit ZipDirectory(const BoundedFile& file);

  /// In the order of the file.
  [[nodiscard]] const std::vector<ZipMember>& members() const noexcept { return members_; }
  [[nodiscard]] const ZipTail& tail() const noexcept { return tail_; }
  /// nullptr when no member has that name.
  [[nodiscard]] const ZipMember* find(std::string_view name) const;

 private:
  std::vector<ZipMember> members_;
  std::vector<std::size_t> by_name_;
  ZipTail tail_;
};

}  // namespace bitrift::archive
