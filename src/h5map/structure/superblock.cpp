#include "h5map/structure/superblock.h"

#include <array>
#include <optional>
#include <string>

#include "core/error.h"
#include "h5map/structure/block.h"
#include "h5map/structure/object_header.h"

namespace bitrift::h5map {
namespace {

constexpr std::string_view superblock_what = "superblock";
constexpr std::array<std::uint8_t, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
constexpr unsigned kDriverMessage = 0x14;
constexpr unsigned kTreeSizesMessage = 0x13;
constexpr unsigned kSharedTableMessage = 0x0f;

std::optional<std::uint64_t> place_of_signature(const Source& source) {
  const std::uint64_t first = source.first();
  for (std::uint64_t block = 0; first + block + kSignature.size() <= source.size();
       block = block == 0 ? 512 : block * 2) {
    std::array<std::uint8_t, 8> found{};
    source.read(first + block, found, superblock_what);
    if (found == kSignature) return first + block;
  }
  return std::nullopt;
}

std::uint64_t find_signature(const Source& source) {
  if (source.size() == 0) fail(ErrorCode::bad_file, "{}: is empty, not an HDF5 file", source.name());
  if (const auto place = place_of_signature(source)) return *place;
  fail(ErrorCode::bad_file, "{}: is not an HDF5 file (no HDF5 signature in its {} bytes)", source.name(),
       source.size());
}

unsigned width(const Source& source, unsigned bytes, const char* of) {
  // The format allows 2 to 32; HDF5 itself keeps both in 64 bits.
  if (bytes == 2 || bytes == 4 || bytes == 8) return bytes;
  fail(ErrorCode::bad_file, "{}: superblock says that {} have {} bytes; 2, 4 or 8 can be", source.name(), of,
       bytes);
}

/// Versions 0 and 1, from the byte after the version on.
void read_old(const Source& source, Superblock& block) {
  // Up to where the sizes of addresses stop mattering, then four addresses and the root's entry.
  const std::uint64_t head = block.version == 0 ? 24 : 28;
  Frame& frame = block.frame;
  {
    const auto bytes = source.read(block.offset, head, superblock_what);
    Cursor cursor(bytes, source.name(), superblock_what);
    cursor.skip(13);
    frame.offset_bytes = width(source, cursor.u8(), "addresses");
    frame.length_bytes = width(source, cursor.u8(), "lengths");
    cursor.skip(1);
    block.leaf_k = cursor.u16();
    block.internal_k = cursor.u16();
  }
  const unsigned wide = frame.offset_bytes;
  const auto bytes =
      source.read(block.offset + head, std::uint64_t{5} * wide + frame.length_bytes + 24, superblock_what);
  Cursor cursor(bytes, source.name(), superblock_what);
  block.stored_base = cursor.address(wide);
  cursor.skip(wide);
  block.end_of_file_field = {block.offset + head + cursor.position(), wide, std::nullopt};
  block.end_of_file = cursor.address(wide);
  block.driver_info = place(source, frame, cursor.address(wide), superblock_what);
  cursor.skip(frame.length_bytes);  // the place of a name, as in every symbol table entry
  block.root = place(source, frame, cursor.address(wide), superblock_what);
}

/// Versions 2 and 3.
void read_new(const Source& source, Superblock& block) {
  const auto head = source.read(block.offset, 12, superblock_what);
  Cursor first(head, source.name(), superblock_what);
  first.skip(9);
  Frame& frame = block.frame;
  frame.offset_bytes = width(source, first.u8(), "addresses");
  frame.length_bytes = width(source, first.u8(), "lengths");
  const unsigned flags = first.u8();
  block.marked_open = block.version == 3 && (flags & 5U) != 0;
  const unsigned wide = frame.offset_bytes;
  const Block all =
      read_block(source, block.offset, std::uint64_t{4} * wide + 16, "\x89HDF", superblock_what);
  Cursor cursor{std::span(all.bytes).subspan(12), source.name(), superblock_what};
  block.stored_base = cursor.address(wide);
  const std::uint64_t extension = cursor.address(wide);
  block.end_of_file_field = all.field(12 + cursor.position(), wide);
  block.end_of_file = cursor.address(wide);
  block.extension = place(source, frame, extension, superblock_what);
  block.root = place(source, frame, cursor.address(wide), superblock_what);
}

[[noreturn]] void refuse_driver(const Source& source, std::span<const std::uint8_t> name) {
  std::string text;
  for (const std::uint8_t byte : name) {
    if (byte > ' ' && byte < 127) text += static_cast<char>(byte);
  }
  fail(ErrorCode::unsupported,
       "{}: is one piece of a file that HDF5's driver {} keeps in several; make it one file with h5repack",
       source.name(), text.empty() ? "(unnamed)" : text);
}

void read_extension(const Source& source, Superblock& block) {
  const ObjectHeader header = read_object_header(source, block.frame, block.extension);
  for (const Message& message : header.messages) {
    Cursor cursor(message.body, source.name(), "superblock extension");
    if (message.type == kDriverMessage) {
      cursor.skip(1);
      refuse_driver(source, cursor.take(8));
    } else if (message.type == kTreeSizesMessage) {
      cursor.skip(3);
      block.internal_k = cursor.u16();
      block.leaf_k = cursor.u16();
    } else if (message.type == kSharedTableMessage) {
      cursor.skip(1);
      block.shared_messages =
          place(source, block.frame, cursor.address(block.frame.offset_bytes), "shared message table");
      block.shared_indexes = cursor.u8();
    } else if (message.type == space_info_message) {
      // Version 0 has a strategy that says it; of version 1, the strategies 0 and 1 have such lists.
      const unsigned version = cursor.u8();
      const unsigned strategy = cursor.u8();
      block.keeps_free_space = version == 0 ? strategy == 1 : strategy < 2 && cursor.u8() != 0;
    }
  }
}

/// Refuses a file that is one piece of several.
void read_driver_and_extension(const Source& source, Superblock& block) {
  if (block.driver_info != undefined) {
    const auto bytes = source.read(block.driver_info, 16, "driver information block");
    refuse_driver(source, std::span(bytes).subspan(8));
  }
  if (block.extension != undefined) read_extension(source, block);
}

}  // namespace

bool has_signature(const Source& source) { return place_of_signature(source).has_value(); }

Superblock read_superblock(const Source& source) {
  Superblock block;
  block.offset = find_signature(source);
  block.frame.base = block.offset;
  block.version = source.read(block.offset, 9, superblock_what)[8];
  if (block.version > 3) {
    fail(ErrorCode::unsupported, "{}: superblock version {} is newer than HDF5 2.0's", source.name(),
         block.version);
  }
  block.version < 2 ? read_old(source, block) : read_new(source, block);
  // HDF5 believes the place of the signature, not the superblock: a user block may have been put in front.
  if (block.end_of_file != undefined) block.end_of_file += block.offset - block.stored_base;
  if (block.end_of_file == undefined || block.end_of_file > source.size()) {
    try {
      read_driver_and_extension(source, block);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unsupported) throw;  // all else may lie in what is cut off
    }
    fail(ErrorCode::bad_file, "{}: is truncated ({} bytes, its superblock says {}); take another copy of it",
         source.name(), source.size(), block.end_of_file);
  }
  if (block.root == undefined) fail(ErrorCode::bad_file, "{}: has no root group", source.name());
  read_driver_and_extension(source, block);
  return block;
}

}  // namespace bitrift::h5map
