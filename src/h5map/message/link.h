// The links of a group.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "h5map/structure/object_header.h"
#include "h5map/structure/superblock.h"

namespace bitrift::h5map {

/// A name in a group.
struct Link {
  enum class Kind { hard, soft, other };  // other: external, or of a kind that a program defined
  std::string name;
  Kind kind = Kind::hard;
  std::uint64_t header = 0;                 ///< hard: the object's header in the file, user block included
  std::optional<std::uint64_t> order = {};  ///< the order in which the group's links were made, if it keeps
                                            ///< that
};

/// Whether an object header is that of a group.
[[nodiscard]] bool is_group(const ObjectHeader& header) noexcept;

/// All links of a group, sorted bytewise by name, from wherever the file keeps them: a symbol table (HDF5
/// file format 3.0, sections III.A.1, III.B and III.D), link messages, or a heap with an index. Throws
/// Error(bad_file): names that are empty, occur twice or contain a slash, nodes that repeat or are damaged.
[[nodiscard]] std::vector<Link> read_links(const Source& source, const Superblock& superblock,
                                           const ObjectHeader& group);

/// For each object that hard links of a group lead to, by its header: the link that was made first, or else
/// the first in this order. The links must outlive the result.
[[nodiscard]] std::map<std::uint64_t, const Link*> first_links(const std::vector<Link>& links);

/// The text with every control character as \xNN, so that a message stays one line.
[[nodiscard]] std::string one_line(const std::string& text);

}  // namespace bitrift::h5map
