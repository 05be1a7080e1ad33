// An index of chunks that is an array growing along one dimension.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "h5map/chunk/entry_code.h"

namespace bitrift::h5map {

/// An extensible array (HDF5 file format 3.0, "Appendix C: The Extensible Array Index"; H5EA*.c): the first
/// entries are in the index block, all other entries in data blocks of doubling size, which the index block
/// or super blocks point to; large data blocks are paged. Throws Error(bad_file).
class ExtensibleArray {
 public:
  ExtensibleArray(const Source& source, const Frame& frame, std::uint64_t offset, bool filtered);

  [[nodiscard]] const EntryCode& code() const noexcept { return code_; }
  [[nodiscard]] std::optional<ChunkEntry> find(std::uint64_t slot) const;
  void visit(const SlotVisitor& each) const;

 private:
  // Super block u represents 2^(u/2) data blocks of 2^((u+1)/2) times the smallest number of entries; the
  // first few super blocks are not in the file, and the index block points to their data blocks directly.
  struct Super {
    std::uint64_t first_slot = 0;  // the number of its first entry, without those in the index block
    std::uint64_t first_data = 0;  // of its data blocks
    std::uint64_t data_blocks = 0;
    std::uint64_t data_slots = 0;  // entries in each of them
  };
  struct SuperBlock {
    std::vector<std::uint64_t> data;     // the place of the data blocks in the file
    std::vector<std::uint8_t> has_page;  // a bitmap of the pages of all of them, first bit highest
  };

  /// Width of the number of a block's first entry.
  [[nodiscard]] unsigned first_bytes() const noexcept { return (slot_bits_ + 7) / 8; }
  /// Where the entries begin in the index block, and in a data block.
  [[nodiscard]] std::uint64_t index_entries_at() const noexcept { return 6 + code_.frame.offset_bytes; }
  [[nodiscard]] std::uint64_t entries_at() const noexcept { return index_entries_at() + first_bytes(); }
  void check_owner(Cursor& cursor, const char* what, std::uint64_t offset,
                   std::initializer_list<std::uint64_t> first_slots) const;
  void read_header(std::uint64_t offset, bool filtered);
  void lay_out_supers();
  void read_index_block(std::uint64_t offset);
  [[nodiscard]] std::uint64_t pages_of(const Super& super) const;
  [[nodiscard]] SuperBlock read_super(std::size_t number) const;
  [[nodiscard]] Block read_data(std::size_t number, std::uint64_t data, std::uint64_t offset) const;
  [[nodiscard]] std::optional<Block> read_page(const SuperBlock& super, std::size_t number,
                                               std::uint64_t data, std::uint64_t page) const;
  void visit_super(std::size_t number, const SlotVisitor& each) const;
  void visit_entries(const Block& block, std::uint64_t at, std::uint64_t first_slot, std::uint64_t slots,
                     const SlotVisitor& each) const;

  const Source* source_;
  EntryCode code_;
  unsigned slot_bits_ = 0, index_slots_ = 0, data_min_slots_ = 0, super_min_data_ = 0, page_bits_ = 0;
  std::uint64_t header_ = undefined;
  std::vector<Super> supers_;
  std::size_t direct_supers_ = 0;  // data blocks without a super block
  std::optional<Block> index_;     // none: no entry was ever written
  std::vector<std::uint64_t> direct_data_, super_blocks_;
};

}  // namespace bitrift::h5map
