// An HDF5 file read without HDF5: its groups, datasets and attributes, and the places of their bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "h5map/message/attribute.h"
#include "h5map/message/dataspace.h"
#include "h5map/message/datatype.h"
#include "h5map/structure/source.h"
#include "h5map/structure/storage_layout.h"
#include "h5map/structure/superblock.h"
#include "h5map/structures.h"

namespace bitrift::h5map {

/// One dataset, as far as it could be interpreted.
struct Dataset {
  std::string path;                           ///< without leading '/'
  std::vector<std::string> other_paths = {};  ///< further hard links to it, sorted
  std::uint64_t header = 0;                   ///< its object header in the file, user block included
  DatatypePtr type;                           ///< null when it could not be read; `problem` then says why
  Dataspace space;
  Layout layout;  ///< contiguous bytes and chunk shapes fit type and space unless there is a problem
  std::vector<std::uint8_t> type_message;  ///< the type as in its message; only with filters
  std::vector<std::uint8_t> fill;  ///< value of elements that are not stored, type->bytes long; empty: zeros
  std::string problem;  ///< one line: what is damaged, unknown or contradicts the file's size; "" when sound
};

struct Group {
  std::string path;  ///< without leading '/'; "" is the root
  std::uint64_t header = 0;
};

/// An HDF5 file of any version from 1.0 to 2.0 (file format 1.1 to 4.0). It trusts nothing in the file: every
/// size, count and address is checked, circles end, and the work that a file can cause is limited to a
/// multiple of its size. Not thread-safe.
class File {
 public:
  /// Reads only the superblock. Throws Error(not_found | io), Error(bad_file) when it is not an HDF5 file,
  /// damaged at its head or truncated, Error(unsupported) for files in several pieces. Messages name the
  /// path.
  explicit File(const std::filesystem::path& path);
  explicit File(Source source);
  ~File();
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;

  [[nodiscard]] const Source& source() const noexcept;
  [[nodiscard]] const Superblock& superblock() const noexcept;
  [[nodiscard]] const Frame& frame() const noexcept { return superblock().frame; }

  /// Every dataset that hard links reach, once, under the first of its names, sorted by path (bytewise). If
  /// an object has several names in one group, the first is the one that was made first, where the group
  /// keeps that. A group with several names counts under the first. Soft and external links and committed
  /// datatypes are left out. An object whose header cannot be read counts as a dataset with a problem:
  /// nothing is left out in silence. Throws Error(bad_file) that names the group when a group is damaged or
  /// when groups are nested more than 256 deep. The file is walked once.
  [[nodiscard]] const std::vector<Dataset>& datasets() const&;
  [[nodiscard]] const std::vector<Dataset>& datasets() const&& = delete;  // would outlive the file
  /// The groups that the same walk reaches, in its order, the root first.
  [[nodiscard]] const std::vector<Group>& groups() const&;
  [[nodiscard]] const std::vector<Group>& groups() const&& = delete;
  /// The attributes of a dataset or group, given by its `header`, sorted by name.
  [[nodiscard]] std::vector<Attribute> attributes(std::uint64_t header) const;
  /// The scalar string attributes of the root group; others are left out.
  [[nodiscard]] std::map<std::string, std::string> root_texts() const;
  /// A text attribute of a group ("" is the root), see attribute_texts; none when either is absent or
  /// damaged.
  [[nodiscard]] std::vector<std::string> texts(const std::string& group, const std::string& attribute) const;
  /// The owner of every byte of the file, chunks and bookkeeping included: see StructureMap. Structures that
  /// only the elements of datasets refer to (global heaps) are found by their signature and have no owner.
  [[nodiscard]] StructureMap structures() const;
  /// Places where values overlap structures: see Structures::clashes.
  [[nodiscard]] std::vector<Clash> clashes() const;

 private:
  void look_at_everything(Structures& map) const;

  class Walk;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitrift::h5map
