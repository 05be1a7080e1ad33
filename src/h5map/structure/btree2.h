// Version 2 B-trees: links and attributes of large groups and objects, chunks of datasets.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "h5map/structure/block.h"
#include "h5map/structure/source.h"
#include "h5map/structure/storage_layout.h"

namespace bitrift::h5map {

/// A version 2 B-tree (HDF5 file format 3.0, section III.A.2). Every node is read when it is needed and its
/// checksum verified; no node is read twice in one walk, and all nodes together cannot be larger than the
/// file. All members throw Error(bad_file) that names file and byte. The source must outlive the tree.
class BTree2 {
 public:
  /// One record, valid during the call that passes it.
  struct Record {
    std::span<const std::uint8_t> bytes;
    std::uint64_t offset = 0;  ///< of bytes[0] in the file, user block included
    Seal seal;                 ///< of the node that holds the record

    /// The place of `width` bytes at position `at` of the record.
    [[nodiscard]] Field field(std::uint64_t at, unsigned width) const { return {offset + at, width, seal}; }
  };

  /// Reads the header at `offset` in the file, user block included.
  BTree2(const Source& source, const Frame& frame, std::uint64_t offset);

  [[nodiscard]] unsigned type() const noexcept { return type_; }  ///< 5: links by name, 10, 11: chunks, ...
  [[nodiscard]] unsigned record_bytes() const noexcept { return record_bytes_; }
  [[nodiscard]] std::uint64_t record_count() const noexcept { return record_count_; }  ///< as the header says

  /// Passes all records in the order of their keys. Throws also when their number differs from that in the
  /// header.
  void visit(const std::function<void(const Record&)>& each) const;
  /// Passes the record for which `compare` (the wanted key against the record's) is equal, and reads only the
  /// nodes on the way to it. False when there is none.
  bool find(const std::function<std::strong_ordering(std::span<const std::uint8_t>)>& compare,
            const std::function<void(const Record&)>& found) const;

 private:
  // What the size of a node allows at one depth; [0] are the leaves.
  struct Level {
    std::uint64_t most = 0;      // records in one node
    std::uint64_t most_all = 0;  // records in one node and in all nodes below it
    unsigned all_bytes = 0;      // width of a pointer's count of the latter; 0 for leaves
  };
  struct Child {
    std::uint64_t offset = 0;
    std::uint64_t records = 0;
  };
  struct Node {
    Block block;
    std::uint64_t records = 0;
    std::vector<Child> children;  // none in a leaf
  };
  struct Walk;

  void measure();
  [[nodiscard]] Node read_node(const Child& at, unsigned depth) const;
  [[nodiscard]] Record record(const Node& node, std::uint64_t index) const;
  void visit_node(const Child& at, unsigned depth, Walk& walk) const;

  const Source* source_;
  Frame frame_;
  unsigned type_ = 0, record_bytes_ = 0, depth_ = 0;
  std::uint64_t node_bytes_ = 0, record_count_ = 0;
  unsigned count_bytes_ = 0;  // width of a pointer's count of records
  Child root_;
  std::vector<Level> levels_;
};

}  // namespace bitrift::h5map
