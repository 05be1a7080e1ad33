#include "h5map/chunk/fixed_array.h"

#include <algorithm>

#include "core/error.h"

namespace bitrift::h5map {
namespace {

constexpr const char* fixed_header = "fixed array header";
constexpr const char* fixed_data_block = "fixed array data block";

}  // namespace

FixedArray::FixedArray(const Source& source, const Frame& frame, std::uint64_t offset, bool filtered)
    : source_(&source), header_(offset) {
  const Block block =
      read_block(source, offset, 12 + frame.length_bytes + frame.offset_bytes, "FAHD", fixed_header);
  Cursor cursor = block.body_of_version_0(source, fixed_header);
  const unsigned client = cursor.u8();
  code_ = {frame, cursor.u8(), client == 1};
  code_.check(source, client, filtered, fixed_header);
  const unsigned page_bits = cursor.u8();
  slots_ = cursor.number(frame.length_bytes);
  data_ = place(source, frame, cursor.address(frame.offset_bytes), fixed_header);
  if (page_bits == 0 || page_bits > 32 || slots_ == 0 || slots_ > source.size()) {
    fail(ErrorCode::bad_file, "{}: {} at byte {} claims {} entries in pages of 2^{}", source.name(),
         fixed_header, offset, slots_, page_bits);
  }
  page_slots_ = std::uint64_t{1} << page_bits;
}

// Signature, version, kind, address of the header; then the bitmap of a paged block, else the entries.
Block FixedArray::prefix() const {
  const std::uint64_t pages = (slots_ + page_slots_ - 1) / page_slots_;
  const std::uint64_t rest = paged() ? (pages + 7) / 8 : slots_ * code_.entry_bytes;
  Block block = read_block(*source_, data_, 10 + code_.frame.offset_bytes + rest, "FADB", fixed_data_block);
  Cursor cursor = block.body(*source_, fixed_data_block);
  const unsigned version = cursor.u8();
  const bool filtered = cursor.u8() == 1;
  const std::uint64_t owner =
      place(*source_, code_.frame, cursor.address(code_.frame.offset_bytes), fixed_data_block);
  if (version != 0 || filtered != code_.filtered || owner != header_) {
    fail(ErrorCode::bad_file, "{}: {} at byte {} belongs to another index", source_->name(), fixed_data_block,
         data_);
  }
  return block;
}

std::optional<ChunkEntry> FixedArray::find(std::uint64_t slot) const {
  if (data_ == undefined || slot >= slots_) return std::nullopt;
  const Block head = prefix();
  const std::uint64_t begin = 6 + code_.frame.offset_bytes;
  if (!paged()) return code_.decode(*source_, head, begin + slot * code_.entry_bytes);
  const std::uint64_t number = slot / page_slots_;
  if ((head.bytes[begin + number / 8] & (0x80U >> (number % 8))) == 0) return std::nullopt;
  const Block page = read_page(head, number);
  return code_.decode(*source_, page, slot % page_slots_ * code_.entry_bytes);
}

Block FixedArray::read_page(const Block& head, std::uint64_t number) const {
  const std::uint64_t page_bytes = page_slots_ * code_.entry_bytes + 4;
  const std::uint64_t slots = std::min(page_slots_, slots_ - number * page_slots_);
  return read_block(*source_, head.offset + head.bytes.size() + number * page_bytes,
                    slots * code_.entry_bytes + 4, "", "fixed array page");
}

void FixedArray::visit(const SlotVisitor& each) const {
  if (data_ == undefined) return;
  const Block head = prefix();
  const std::uint64_t begin = 6 + code_.frame.offset_bytes;
  if (!paged()) {
    for (std::uint64_t slot = 0; slot < slots_; ++slot) {
      each(slot, code_.decode(*source_, head, begin + slot * code_.entry_bytes));
    }
    return;
  }
  for (std::uint64_t number = 0; number * page_slots_ < slots_; ++number) {
    if ((head.bytes[begin + number / 8] & (0x80U >> (number % 8))) == 0) continue;
    const Block page = read_page(head, number);
    const std::uint64_t slots = (page.bytes.size() - 4) / code_.entry_bytes;
    for (std::uint64_t i = 0; i < slots; ++i) {
      each(number * page_slots_ + i, code_.decode(*source_, page, i * code_.entry_bytes));
    }
  }
}

}  // namespace bitrift::h5map
