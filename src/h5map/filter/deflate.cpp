#include "h5map/filter/deflate.h"

#include <memory>
#include <utility>

#include <libdeflate.h>

#include "core/deflate/stream_patch.h"
#include "core/error.h"

namespace bitrift::h5map {
namespace {

struct Free {
  void operator()(libdeflate_compressor* one) const noexcept { libdeflate_free_compressor(one); }
  void operator()(libdeflate_decompressor* one) const noexcept { libdeflate_free_decompressor(one); }
};
using Compressor = std::unique_ptr<libdeflate_compressor, Free>;
using Decompressor = std::unique_ptr<libdeflate_decompressor, Free>;

/// Larger chunks are not packed a second time: the highest level takes seconds for 100 MB.
constexpr std::size_t most_repeated = std::size_t{16} << 20U;

/// Up to a megabyte, so each thread keeps the last one that it used.
libdeflate_compressor* compressor(int level) {
  thread_local std::pair<int, Compressor> last{-1, nullptr};
  if (last.first != level) last = {level, Compressor(libdeflate_alloc_compressor(level))};
  if (last.second == nullptr) throw std::bad_alloc();
  return last.second.get();
}

std::vector<std::uint8_t> deflate_at(std::span<const std::uint8_t> bytes, int level) {
  libdeflate_compressor* const packer = compressor(level);
  const std::size_t bound = libdeflate_zlib_compress_bound(packer, bytes.size());
  // Not initialised: most pages of a large bound are never touched.
  const auto out = std::make_unique_for_overwrite<std::uint8_t[]>(bound);
  const std::size_t size = libdeflate_zlib_compress(packer, bytes.data(), bytes.size(), out.get(), bound);
  if (size == 0) fail(ErrorCode::internal, "{} bytes cannot be deflated", bytes.size());
  return {out.get(), out.get() + size};
}

constexpr std::size_t header_bytes = 2;
constexpr std::size_t sum_bytes = 4;

/// The zlib stream of `values` whose deflate stream is `stream`; its header is that of `packed`.
std::vector<std::uint8_t> wrapped(std::span<const std::uint8_t> stream, std::span<const std::uint8_t> packed,
                                  std::span<const std::uint8_t> values) {
  std::vector<std::uint8_t> whole(packed.begin(), packed.begin() + header_bytes);
  whole.insert(whole.end(), stream.begin(), stream.end());
  const std::uint32_t sum = libdeflate_adler32(1, values.data(), values.size());
  for (unsigned shift = 32; shift > 0; shift -= 8)
    whole.push_back(static_cast<std::uint8_t>(sum >> (shift - 8)));
  return whole;
}

}  // namespace

std::vector<std::uint8_t> inflate_bytes(std::span<const std::uint8_t> packed, std::uint64_t most,
                                        std::size_t* taken) {
  thread_local const Decompressor unpacker(libdeflate_alloc_decompressor());
  if (unpacker == nullptr) throw std::bad_alloc();
  std::vector<std::uint8_t> out(most);
  std::size_t used = 0;
  std::size_t done = 0;
  switch (libdeflate_zlib_decompress_ex(unpacker.get(), packed.data(), packed.size(), out.data(), out.size(),
                                        &used, &done)) {
    case LIBDEFLATE_SUCCESS:
      break;
    case LIBDEFLATE_INSUFFICIENT_SPACE:
      fail(ErrorCode::bad_file, "deflated data gives more than {} bytes", most);
    default:
      fail(ErrorCode::bad_file, "deflated data is damaged or ends too early");
  }
  out.resize(done);
  if (taken != nullptr) *taken = used;
  return out;
}

std::vector<std::uint8_t> deflate_bytes(std::span<const std::uint8_t> bytes, std::uint32_t level,
                                        std::uint64_t room) {
  constexpr std::uint32_t most_level = 9;
  if (level > most_level) fail(ErrorCode::bad_file, "deflate has no level {}", level);
  std::vector<std::uint8_t> packed = deflate_at(bytes, static_cast<int>(level));
  for (const int harder : {9, 12}) {
    if (packed.size() <= room || level == 0 || bytes.size() > most_repeated) break;
    if (harder <= static_cast<int>(level)) continue;
    std::vector<std::uint8_t> again = deflate_at(bytes, harder);
    if (again.size() < packed.size()) packed = std::move(again);
  }
  return packed;
}

std::vector<std::uint8_t> deflate_again(std::span<const std::uint8_t> packed,
                                        std::vector<std::uint8_t> before, std::span<const std::uint8_t> after,
                                        std::uint32_t level, std::uint64_t room) {
  const auto stream = packed.subspan(header_bytes, packed.size() - header_bytes - sum_bytes);
  std::vector<std::uint8_t> whole;
  const auto inflate = [&](auto one) {
    whole = wrapped(one, packed, after);
    return inflate_bytes(whole, after.size());
  };
  const bool patched = deflate::patch_checked(stream, std::move(before), after, inflate).has_value();
  if (patched && whole.size() <= room) return whole;
  std::vector<std::uint8_t> repacked = deflate_bytes(after, level, room);
  return patched && whole.size() <= repacked.size() ? std::move(whole) : std::move(repacked);
}

}  // namespace bitrift::h5map
