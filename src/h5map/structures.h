// A map of a file: what every byte of it belongs to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bitrift::h5map {

/// A run of bytes of one kind.
struct Extent {
  std::uint64_t first = 0, end = 0;  ///< in the file, user block included; `end` is one behind the last
  std::string
      kind;  ///< "superblock", "object header", "raw data, contiguous", "attribute value", "unused", ...
  std::string owner;  ///< path of the object that it belongs to, "/" for the root; "" for the file as a whole
};

/// Collects what readers see and turns it into a map without gaps or overlaps.
class Structures {
 public:
  /// What is noted from now on belongs to this object.
  void set_owner(std::string_view path);
  /// Empty extents are left out.
  void add(std::uint64_t first, std::uint64_t bytes, std::string_view kind);
  /// Extents from 0 to `file_bytes`, ascending, each beginning where the one before ends. Bytes that were
  /// never noted are "unused". Where extents overlap, values inside of structures ("attribute value",
  /// "raw data, ...") win, then the one that was noted first. Neighbours of one kind and owner are joined.
  [[nodiscard]] std::vector<Extent> map(std::uint64_t file_bytes) const;

 private:
  struct Run {
    std::uint64_t first = 0, end = 0;
    std::uint32_t kind = 0, owner = 0, order = 0;
  };
  static void flatten(std::vector<Run>& runs);

  std::vector<std::string> kinds_, owners_ = {""};
  std::uint32_t owner_ = 0;
  std::vector<Run> runs_;
};

}  // namespace bitrift::h5map
