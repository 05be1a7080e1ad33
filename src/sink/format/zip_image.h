// Lays out a zip archive some of whose members are filled in later.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sink/image.h"

namespace bitrift::ckpt {

/// Collects the members of an archive in their order (APPNOTE.TXT 6.3.10). No time stamps; fields of ZIP64
/// only where sizes or places need them.
class ZipImage {
 public:
  /// A stored member whose bytes are all known.
  void add(std::string_view name, std::vector<std::uint8_t> bytes);
  /// A stored member: `head`, then a tensor. The tensor begins at a multiple of 64 in the file if the head
  /// has a suitable size.
  void add_tensor(std::string_view name, std::vector<std::uint8_t> head, const std::string& path,
                  std::uint64_t bytes);
  /// A deflated member.
  void add_deflated(std::string_view name, std::vector<std::uint8_t> packed, std::uint64_t bytes,
                    std::uint32_t crc32);
  /// With the central directory, and the tensors sorted by path. Once.
  [[nodiscard]] Image finish();

 private:
  struct Member;
  void add(const Member& member, std::vector<std::uint8_t> known);

  Image image_;
  std::vector<std::uint8_t> central_;
  std::vector<std::uint64_t> central_holes_;  // the places in it whose checksums are still unknown
  std::vector<std::size_t> hole_tensors_;     // whose these are
  std::uint64_t members_ = 0;
};

}  // namespace bitrift::ckpt
