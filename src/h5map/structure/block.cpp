#include "h5map/structure/block.h"

#include <cstring>
#include <limits>
#include <span>

#include "core/error.h"

namespace bitrift::h5map {

Cursor Block::body_of_version_0(const Source& source, std::string_view what) const {
  Cursor cursor = body(source, what);
  const unsigned version = cursor.u8();
  if (version != 0) {
    fail(ErrorCode::unsupported, "{}: {} at byte {} has version {}; only 0 is known", source.name(), what,
         offset, version);
  }
  return cursor;
}

Block read_block(const Source& source, std::uint64_t offset, std::uint64_t bytes, std::string_view signature,
                 std::string_view what) {
  if (bytes < 8)
    fail(ErrorCode::internal, "{}: {} of {} bytes cannot hold a checksum", source.name(), what, bytes);
  Block block{offset, source.read(offset, bytes, what)};
  if (std::memcmp(block.bytes.data(), signature.data(), signature.size()) != 0) {
    fail(ErrorCode::bad_file, "{}: {} at byte {} lacks its signature {}; the file is damaged", source.name(),
         what, offset, signature);
  }
  const auto covered = std::span(block.bytes).first(bytes - 4);
  Cursor tail(std::span(block.bytes).last(4), source.name(), what);
  const std::uint32_t stored = tail.u32();
  const std::uint32_t computed = lookup3(covered);
  if (!sums_agree(stored, computed)) {
    fail(ErrorCode::bad_file,
         "{}: {} at byte {} has checksum {:08x}, its bytes have {:08x}; the file is damaged", source.name(),
         what, offset, stored, computed);
  }
  return block;
}

std::uint64_t place(const Source& source, const Frame& frame, std::uint64_t address, std::string_view what) {
  if (address == undefined) return undefined;
  if (address >= std::numeric_limits<std::uint64_t>::max() - frame.base) {
    fail(ErrorCode::bad_file, "{}: {} has address {}, which lies beyond every file", source.name(), what,
         address);
  }
  return address + frame.base;
}

}  // namespace bitrift::h5map
