// The version 1 B-tree, in which older files keep the chunks of a dataset.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_set>
#include <vector>

#include "h5map/chunk/entry.h"
#include "h5map/structure/source.h"
#include "h5map/structure/storage_layout.h"

namespace bitrift::h5map {

/// HDF5 file format 3.0, section III.A.1, node type 1. Its nodes carry no checksum. A key holds stored size,
/// filter mask and the position of a chunk in elements, with one dimension more than the dataset. Throws
/// Error(bad_file); no node is visited twice, every child is one level below its parent, and all nodes
/// together cannot be larger than the file. A level is a byte, and a tree may use all of it: where nodes have
/// room for two children (H5Pset_istore_k of 1), each chunk in ascending order adds a level.
class ChunkBTree1 {
 public:
  /// Takes the position of a chunk in the grid and its entry. entry_at is that of the key; the chunk's
  /// address follows the key.
  using Visitor = std::function<void(std::span<const std::uint64_t> position, const ChunkEntry& entry)>;

  /// `chunk`: shape of a chunk.
  ChunkBTree1(const Source& source, const Frame& frame, std::uint64_t offset,
              std::vector<std::uint64_t> chunk);

  /// Throws also when keys are not in order, so that find() would miss a chunk.
  void visit(const Visitor& each) const;
  /// Passes the chunk at `position`, and reads only the nodes on the way to it. False when there is none.
  [[nodiscard]] bool find(std::span<const std::uint64_t> position, const Visitor& found) const;
  /// Bytes of a key.
  [[nodiscard]] unsigned key_bytes() const noexcept {
    return static_cast<unsigned>(8 + 8 * (chunk_.size() + 1));
  }

 private:
  struct Node {
    std::uint64_t offset = 0;
    unsigned level = 0, entries = 0;
    std::vector<std::uint8_t> bytes;  // the keys and addresses
  };
  struct Walk;

  [[nodiscard]] Node read_node(std::uint64_t offset) const;
  [[nodiscard]] std::uint64_t key_at(std::uint64_t number) const noexcept;
  void read_key(const Node& node, unsigned number, std::vector<std::uint64_t>& position,
                ChunkEntry& entry) const;
  [[nodiscard]] std::uint64_t child(const Node& node, unsigned number) const;
  [[nodiscard]] std::vector<std::uint64_t> end_at(const Node& node, unsigned number) const;
  void visit_node(const Node& node, const std::vector<std::uint64_t>& begin,
                  const std::vector<std::uint64_t>& end, Walk& walk) const;

  const Source* source_;
  Frame frame_;
  std::uint64_t root_;
  std::vector<std::uint64_t> chunk_;
};

}  // namespace bitrift::h5map
