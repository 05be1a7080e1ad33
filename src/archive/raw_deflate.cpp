#include "archive/raw_deflate.h"

#include <algorithm>
#include <limits>
#include <memory>

#include <libdeflate.h>
#include <zlib.h>

#include "core/deflate/stream_patch.h"
#include "core/error.h"

namespace bitrift::archive {
namespace {

struct Free {
  void operator()(libdeflate_compressor* one) const noexcept { libdeflate_free_compressor(one); }
  void operator()(libdeflate_decompressor* one) const noexcept { libdeflate_free_decompressor(one); }
};

constexpr int usual_level = 6;  // of zlib, and of what Python writes
constexpr std::size_t most_of_stored_block = 0xffff;
constexpr std::size_t most_repeated = std::size_t{16} << 20U;  // the hardest level takes seconds for 100 MB

std::vector<std::uint8_t> deflate_at(std::span<const std::uint8_t> bytes, int level) {
  const std::unique_ptr<libdeflate_compressor, Free> packer(libdeflate_alloc_compressor(level));
  if (packer == nullptr) throw std::bad_alloc();
  const std::size_t bound = libdeflate_deflate_compress_bound(packer.get(), bytes.size());
  // Not initialised: most pages of a large bound are never touched.
  const auto out = std::make_unique_for_overwrite<std::uint8_t[]>(bound);
  const std::size_t size =
      libdeflate_deflate_compress(packer.get(), bytes.data(), bytes.size(), out.get(), bound);
  if (size == 0) fail(ErrorCode::internal, "{} bytes cannot be deflated", bytes.size());
  return {out.get(), out.get() + size};
}

}  // namespace

bool can_inflate_to(std::uint64_t packed_bytes, std::uint64_t bytes) noexcept {
  constexpr std::uint64_t most_of_one = 1032;
  return bytes / most_of_one <= packed_bytes;
}

std::vector<std::uint8_t> inflate_raw(std::span<const std::uint8_t> packed, std::uint64_t bytes) {
  const std::unique_ptr<libdeflate_decompressor, Free> unpacker(libdeflate_alloc_decompressor());
  if (unpacker == nullptr) throw std::bad_alloc();
  std::vector<std::uint8_t> out(bytes);
  // If no place is given for the size, a smaller result is an error too.
  switch (libdeflate_deflate_decompress(unpacker.get(), packed.data(), packed.size(), out.data(), out.size(),
                                        nullptr)) {
    case LIBDEFLATE_SUCCESS:
      return out;
    case LIBDEFLATE_INSUFFICIENT_SPACE:
    case LIBDEFLATE_SHORT_OUTPUT:
      fail(ErrorCode::bad_file, "deflated data does not give {} bytes", bytes);
    default:
      fail(ErrorCode::bad_file, "deflated data is damaged or ends too early");
  }
}

std::vector<std::uint8_t> inflate_beginning(std::span<const std::uint8_t> packed, std::uint64_t most) {
  z_stream stream{};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, &::inflateEnd);
  std::vector<std::uint8_t> out(most);
  stream.next_in = const_cast<Bytef*>(packed.data());  // zlib reads it only
  stream.avail_in = static_cast<uInt>(std::min<std::size_t>(packed.size(), std::numeric_limits<uInt>::max()));
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  const int state = ::inflate(&stream, Z_SYNC_FLUSH);
  if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR) {
    fail(ErrorCode::bad_file, "deflated data is damaged");
  }
  out.erase(out.end() - stream.avail_out, out.end());
  return out;
}

std::vector<std::uint8_t> deflate_raw(std::span<const std::uint8_t> bytes, std::uint64_t room) {
  std::vector<std::uint8_t> packed = deflate_at(bytes, usual_level);
  for (const int harder : {9, 12}) {
    if (packed.size() <= room || bytes.size() > most_repeated) break;
    std::vector<std::uint8_t> again = deflate_at(bytes, harder);
    if (again.size() < packed.size()) packed = std::move(again);
  }
  return packed;
}

std::vector<std::uint8_t> deflate_raw_again(std::span<const std::uint8_t> packed,
                                            std::vector<std::uint8_t> before,
                                            std::span<const std::uint8_t> after) {
  auto patched = deflate::patch_checked(packed, std::move(before), after,
                                        [&](auto stream) { return inflate_raw(stream, after.size()); });
  if (patched && patched->size() <= packed.size()) return std::move(*patched);
  std::vector<std::uint8_t> repacked = deflate_raw(after, packed.size());
  return patched && patched->size() <= repacked.size() ? std::move(*patched) : repacked;
}

std::vector<std::uint8_t> deflate_behind(std::span<const std::uint8_t> head,
                                         std::span<const std::uint8_t> bytes) {
  if (head.size() > most_of_stored_block)
    fail(ErrorCode::internal, "{} bytes do not fit into a stored block", head.size());
  // A block that is stored and not the last (RFC 1951, 3.2.4). It ends at a whole byte, where another block
  // may follow.
  const auto size = static_cast<unsigned>(head.size());
  std::vector<std::uint8_t> out = {0};
  for (const unsigned half : {size, ~size}) {
    out.push_back(static_cast<std::uint8_t>(half));
    out.push_back(static_cast<std::uint8_t>(half >> 8U));
  }
  out.insert(out.end(), head.begin(), head.end());
  const std::vector<std::uint8_t> packed = deflate_at(bytes, usual_level);
  out.insert(out.end(), packed.begin(), packed.end());
  return out;
}

}  // namespace bitrift::archive
