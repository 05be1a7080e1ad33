// A map of a file: what every byte of it belongs to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bitrift::h5map {

/// A run of bytes of one kind.
struct Extent {
  std::uint64_t first = 0, end = 0;  ///< in the file, user block included; `end` is one past the last
  std::string_view
      kind;  ///< "superblock", "object header", "raw data, contiguous", "attribute value", "unused", ...
  std::string_view
      owner;  ///< path of the object that it belongs to, "/" for the root; "" for the file as a whole
};

/// Extents without gaps or overlaps, ascending. Their texts live as long as the map.
class StructureMap {
 public:
  StructureMap(StructureMap&&) noexcept = default;
  StructureMap& operator=(StructureMap&&) noexcept = default;
  StructureMap(const StructureMap&) = delete;
  StructureMap& operator=(const StructureMap&) = delete;
  ~StructureMap() = default;

  [[nodiscard]] const std::vector<Extent>& extents() const& noexcept { return extents_; }
  [[nodiscard]] const std::vector<Extent>& extents() const&& = delete;  // would outlive the map
  /// The extent of a byte, which must lie in the file.
  [[nodiscard]] const Extent& at(std::uint64_t offset) const;

 private:
  friend class Structures;
  StructureMap() = default;
  std::vector<Extent> extents_;
  std::vector<std::string> kinds_, owners_;
};

/// Bytes that are a dataset's values and a structure at once: a damaged file, or one made to deceive.
struct Clash {
  std::uint64_t first = 0, end = 0;
  std::string what;  ///< the structure: "object header of /w"
};

/// Collects what readers see.
class Structures {
 public:
  /// Memory for one more extent, about.
  static constexpr std::uint64_t bytes_of_one = 128;

  /// Bytes that are noted from now on belong to this object.
  void set_owner(std::string_view path);
  /// The bytes that the current owner has noted since set_owner() are its own, even where other owners noted
  /// them before.
  void prevail();
  /// Empty extents are left out.
  void add(std::uint64_t first, std::uint64_t bytes, std::string_view kind);
  /// Runs [first, end) of the file that were never noted.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> gaps(std::uint64_t file_bytes) const;
  /// Where values of contiguous datasets or chunks lie over anything else, ascending.
  [[nodiscard]] std::vector<Clash> clashes() const;
  /// The map of all `file_bytes` bytes; what was never noted is "unused". Where extents overlap, values
  /// inside of structures ("attribute value", "raw data, ...") win, then those that prevail() marked, then
  /// the one that was noted first. Neighbours of one kind and owner are joined.
  [[nodiscard]] StructureMap map(std::uint64_t file_bytes) &&;

 private:
  struct Run {
    std::uint64_t first = 0, end = 0;
    std::uint32_t kind = 0, owner = 0, order = 0;
  };
  static std::vector<Run> flatten(std::vector<Run> runs);

  std::vector<std::string> kinds_ = {"unused"}, owners_ = {""};
  std::uint32_t owner_ = 0;
  std::vector<Run> runs_;
};

}  // namespace bitrift::h5map
