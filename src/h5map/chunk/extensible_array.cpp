#include "h5map/chunk/extensible_array.h"

#include <algorithm>
#include <bit>

#include "core/error.h"

namespace bitrift::h5map {
namespace {

constexpr const char* extensible_header = "extensible array header";
constexpr const char* index_what = "extensible array index block";
constexpr const char* super_what = "extensible array super block";
constexpr const char* extensible_data_block = "extensible array data block";
constexpr const char* page_what = "extensible array page";

}  // namespace

ExtensibleArray::ExtensibleArray(const Source& source, const Frame& frame, std::uint64_t offset,
                                 bool filtered)
    : source_(&source), header_(offset) {
  code_.frame = frame;
  read_header(offset, filtered);
}

void ExtensibleArray::read_header(std::uint64_t offset, bool filtered) {
  const Frame& frame = code_.frame;
  const Block block = read_block(*source_, offset, 16 + 6 * frame.length_bytes + frame.offset_bytes, "EAHD",
                                 extensible_header);
  Cursor cursor = block.body_of_version_0(*source_, extensible_header);
  const unsigned client = cursor.u8();
  code_.entry_bytes = cursor.u8();
  code_.filtered = client == 1;
  code_.check(*source_, client, filtered, extensible_header);
  slot_bits_ = cursor.u8();
  index_slots_ = cursor.u8();
  data_min_slots_ = cursor.u8();
  super_min_data_ = cursor.u8();
  page_bits_ = cursor.u8();
  cursor.skip(std::uint64_t{6} * frame.length_bytes);  // statistics
  const std::uint64_t index = place(*source_, frame, cursor.address(frame.offset_bytes), extensible_header);
  const bool powers = std::has_single_bit(data_min_slots_) && std::has_single_bit(super_min_data_);
  const unsigned least_bits = powers ? static_cast<unsigned>(std::bit_width(data_min_slots_)) - 1 : 0;
  if (!powers || super_min_data_ < 2 || slot_bits_ > 62 || slot_bits_ < least_bits || page_bits_ == 0 ||
      page_bits_ > 32 || 1 + slot_bits_ - least_bits < 2 * (std::bit_width(super_min_data_) - 1U)) {
    fail(ErrorCode::bad_file, "{}: {} at byte {} has a geometry that no array has ({}, {}, {}, {}, {})",
         source_->name(), extensible_header, offset, slot_bits_, index_slots_, data_min_slots_,
         super_min_data_, page_bits_);
  }
  lay_out_supers();
  if (index != undefined) read_index_block(index);
}

void ExtensibleArray::lay_out_supers() {
  direct_supers_ = std::size_t{2} * (std::bit_width(super_min_data_) - 1U);
  const unsigned count = 1 + slot_bits_ - (static_cast<unsigned>(std::bit_width(data_min_slots_)) - 1);
  Super super;
  for (unsigned u = 0; u < count; ++u) {
    super.data_blocks = std::uint64_t{1} << (u / 2);
    super.data_slots = (std::uint64_t{1} << ((u + 1) / 2)) * data_min_slots_;
    supers_.push_back(super);
    super.first_slot += super.data_blocks * super.data_slots;
    super.first_data += super.data_blocks;
  }
  for (std::size_t u = 0; u < direct_supers_; ++u) {
    if (pages_of(supers_[u]) > 0) {
      fail(ErrorCode::unsupported, "{}: {} at byte {} has pages where HDF5 makes none", source_->name(),
           extensible_header, header_);
    }
  }
}

/// The number of pages in each of a super block's data blocks; 0 when they are not paged.
std::uint64_t ExtensibleArray::pages_of(const Super& super) const {
  const std::uint64_t page_slots = std::uint64_t{1} << page_bits_;
  return super.data_slots > page_slots ? super.data_slots / page_slots : 0;
}

void ExtensibleArray::read_index_block(std::uint64_t offset) {
  const unsigned width = code_.frame.offset_bytes;
  const std::uint64_t data = 2 * (std::uint64_t{super_min_data_} - 1);
  const std::uint64_t supers = supers_.size() - direct_supers_;
  const std::uint64_t entries = std::uint64_t{index_slots_} * code_.entry_bytes;
  index_ = read_block(*source_, offset, 10 + width + entries + (data + supers) * width, "EAIB", index_what);
  Cursor cursor = index_->body(*source_, index_what);
  const unsigned version = cursor.u8();
  const bool filtered = cursor.u8() == 1;
  const std::uint64_t owner = place(*source_, code_.frame, cursor.address(width), index_what);
  if (version != 0 || filtered != code_.filtered || owner != header_) {
    fail(ErrorCode::bad_file, "{}: {} at byte {} belongs to another index", source_->name(), index_what,
         offset);
  }
  cursor.skip(entries);
  for (std::uint64_t i = 0; i < data; ++i) {
    direct_data_.push_back(place(*source_, code_.frame, cursor.address(width), extensible_data_block));
  }
  for (std::uint64_t i = 0; i < supers; ++i) {
    super_blocks_.push_back(place(*source_, code_.frame, cursor.address(width), super_what));
  }
}

/// Super blocks and data blocks begin in the same way: version, kind, header, and the number of their first
/// entry, so that two pointers cannot lead to one block.
void ExtensibleArray::check_owner(Cursor& cursor, const char* what, std::uint64_t offset,
                                  std::initializer_list<std::uint64_t> first_slots) const {
  const unsigned version = cursor.u8();
  const bool filtered = cursor.u8() == 1;
  const std::uint64_t owner = place(*source_, code_.frame, cursor.address(code_.frame.offset_bytes), what);
  const std::uint64_t first = cursor.number(first_bytes());
  const bool expected = std::find(first_slots.begin(), first_slots.end(), first) != first_slots.end();
  if (version != 0 || filtered != code_.filtered || owner != header_ || !expected) {
    fail(ErrorCode::bad_file, "{}: {} at byte {} belongs elsewhere", source_->name(), what, offset);
  }
}

ExtensibleArray::SuperBlock ExtensibleArray::read_super(std::size_t number) const {
  const Super& super = supers_[number];
  const std::uint64_t offset = super_blocks_[number - direct_supers_];
  const unsigned width = code_.frame.offset_bytes;
  const std::uint64_t bitmap = super.data_blocks * ((pages_of(super) + 7) / 8);
  const Block block = read_block(
      *source_, offset, 10 + width + first_bytes() + bitmap + super.data_blocks * width, "EASB", super_what);
  Cursor cursor = block.body(*source_, super_what);
  check_owner(cursor, super_what, offset, {super.first_slot});
  SuperBlock read;
  const auto pages = cursor.take(bitmap);
  read.has_page.assign(pages.begin(), pages.end());
  for (std::uint64_t i = 0; i < super.data_blocks; ++i) {
    read.data.push_back(place(*source_, code_.frame, cursor.address(width), extensible_data_block));
  }
  return read;
}

/// Data block `data` of super block `number`; of a paged one, the part before its pages.
Block ExtensibleArray::read_data(std::size_t number, std::uint64_t data, std::uint64_t offset) const {
  const Super& super = supers_[number];
  const std::uint64_t slots = pages_of(super) == 0 ? super.data_slots : 0;
  Block block = read_block(*source_, offset, entries_at() + slots * code_.entry_bytes + 4, "EADB",
                           extensible_data_block);
  Cursor cursor = block.body(*source_, extensible_data_block);
  const std::uint64_t first = super.first_slot + data * super.data_slots;
  // HDF5 numbers those of the index block as if all earlier data blocks were equally large
  // (H5EA__lookup_elmt).
  const std::uint64_t odd = number < direct_supers_ ? first + super.first_data * super.data_slots : first;
  check_owner(cursor, extensible_data_block, offset, {first, odd});
  return block;
}

/// Page `page` of data block `data` of super block `number`; nullopt when it was never written.
std::optional<Block> ExtensibleArray::read_page(const SuperBlock& super, std::size_t number,
                                                std::uint64_t data, std::uint64_t page) const {
  // HDF5 rounds the space for a data block's bits up to bytes, yet numbers the bits of all blocks
  // consecutively.
  const std::uint64_t bit = data * pages_of(supers_[number]) + page;
  if ((super.has_page[bit / 8] & (0x80U >> (bit % 8))) == 0) return std::nullopt;
  const std::uint64_t head = entries_at() + 4;
  const std::uint64_t page_bytes = (std::uint64_t{1} << page_bits_) * code_.entry_bytes + 4;
  return read_block(*source_, super.data[data] + head + page * page_bytes, page_bytes, "", page_what);
}

std::optional<ChunkEntry> ExtensibleArray::find(std::uint64_t slot) const {
  if (!index_) return std::nullopt;
  if (slot < index_slots_)
    return code_.decode(*source_, *index_, index_entries_at() + slot * code_.entry_bytes);
  std::uint64_t rest = slot - index_slots_;
  const auto after =
      std::upper_bound(supers_.begin(), supers_.end(), rest,
                       [](std::uint64_t at, const Super& super) { return at < super.first_slot; });
  const auto number = static_cast<std::size_t>(after - supers_.begin()) - 1;
  const Super& super = supers_[number];
  rest -= super.first_slot;
  const std::uint64_t data = rest / super.data_slots;
  if (data >= super.data_blocks) return std::nullopt;
  rest %= super.data_slots;
  if (number < direct_supers_) {
    const std::uint64_t offset = direct_data_[super.first_data + data];
    if (offset == undefined) return std::nullopt;
    return code_.decode(*source_, read_data(number, data, offset), entries_at() + rest * code_.entry_bytes);
  }
  if (super_blocks_[number - direct_supers_] == undefined) return std::nullopt;
  const SuperBlock block = read_super(number);
  if (block.data[data] == undefined) return std::nullopt;
  const Block read = read_data(number, data, block.data[data]);
  if (pages_of(super) == 0) return code_.decode(*source_, read, entries_at() + rest * code_.entry_bytes);
  const std::uint64_t page_slots = std::uint64_t{1} << page_bits_;
  const auto page = read_page(block, number, data, rest / page_slots);
  if (!page) return std::nullopt;
  return code_.decode(*source_, *page, rest % page_slots * code_.entry_bytes);
}

void ExtensibleArray::visit_entries(const Block& block, std::uint64_t at, std::uint64_t first_slot,
                                    std::uint64_t slots, const SlotVisitor& each) const {
  for (std::uint64_t i = 0; i < slots; ++i) {
    each(first_slot + i, code_.decode(*source_, block, at + i * code_.entry_bytes));
  }
}

void ExtensibleArray::visit(const SlotVisitor& each) const {
  if (!index_) return;
  visit_entries(*index_, index_entries_at(), 0, index_slots_, each);
  for (std::size_t number = 0; number < direct_supers_; ++number) {
    const Super& super = supers_[number];
    for (std::uint64_t data = 0; data < super.data_blocks; ++data) {
      const std::uint64_t offset = direct_data_[super.first_data + data];
      if (offset == undefined) continue;
      visit_entries(read_data(number, data, offset), entries_at(),
                    index_slots_ + super.first_slot + data * super.data_slots, super.data_slots, each);
    }
  }
  for (std::size_t number = direct_supers_; number < supers_.size(); ++number) {
    if (super_blocks_[number - direct_supers_] != undefined) visit_super(number, each);
  }
}

void ExtensibleArray::visit_super(std::size_t number, const SlotVisitor& each) const {
  const Super& super = supers_[number];
  const SuperBlock block = read_super(number);
  const std::uint64_t pages = pages_of(super);
  const std::uint64_t page_slots = std::uint64_t{1} << page_bits_;
  for (std::uint64_t data = 0; data < super.data_blocks; ++data) {
    if (block.data[data] == undefined) continue;
    const std::uint64_t first = index_slots_ + super.first_slot + data * super.data_slots;
    const Block read = read_data(number, data, block.data[data]);
    if (pages == 0) visit_entries(read, entries_at(), first, super.data_slots, each);
    for (std::uint64_t i = 0; i < pages; ++i) {
      if (const auto page = read_page(block, number, data, i)) {
        visit_entries(*page, 0, first + i * page_slots, page_slots, each);
      }
    }
  }
}

}  // namespace bitrift::h5map
