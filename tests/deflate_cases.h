// Random deflate streams of several encoders, random changes of what they hold, and the check that both must
// pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <libdeflate.h>
#include <zlib.h>

#include "core/deflate/stream_patch.h"

namespace bitrift::testing {

/// A deflate stream of `before`, and content that differs in some bytes.
struct DeflateCase {
  std::vector<std::uint8_t> stream, before, after;
};

/// Settings of zlib; `flushes`: how often it is made to end a block, and how (Z_PARTIAL_FLUSH, ...).
struct ZlibSettings {
  int level = 6, strategy = Z_DEFAULT_STRATEGY, window_bits = 15, memory = 8;
  unsigned flushes = 0;
  int flush = Z_SYNC_FLUSH;
};

inline std::vector<std::uint8_t> zlib_deflate(std::span<const std::uint8_t> content,
                                              const ZlibSettings& how) {
  z_stream zlib{};
  if (::deflateInit2(&zlib, how.level, Z_DEFLATED, -how.window_bits, how.memory, how.strategy) != Z_OK)
    std::abort();
  std::vector<std::uint8_t> out(::deflateBound(&zlib, content.size()) + 64 + 16 * std::size_t{how.flushes});
  zlib.next_out = out.data();
  zlib.avail_out = static_cast<uInt>(out.size());
  const std::size_t piece = content.size() / (how.flushes + 1);
  for (unsigned i = 0; i <= how.flushes; ++i) {
    zlib.next_in = const_cast<Bytef*>(content.data() + i * piece);  // zlib reads it only
    zlib.avail_in = static_cast<uInt>(i == how.flushes ? content.size() - i * piece : piece);
    const int state = ::deflate(&zlib, i == how.flushes ? Z_FINISH : how.flush);
    // It is not an error if there is nothing to flush twice.
    if (i == how.flushes ? state != Z_STREAM_END : state != Z_OK && state != Z_BUF_ERROR) std::abort();
  }
  out.resize(zlib.total_out);
  ::deflateEnd(&zlib);
  return out;
}

/// What zlib makes of a stream that must end with its last byte; nullopt where it does not take it.
inline std::optional<std::vector<std::uint8_t>> zlib_inflate(std::span<const std::uint8_t> stream,
                                                             std::size_t most) {
  z_stream zlib{};
  if (::inflateInit2(&zlib, -15) != Z_OK) std::abort();
  std::vector<std::uint8_t> out(most + 1);
  zlib.next_in = const_cast<Bytef*>(stream.data());
  zlib.avail_in = static_cast<uInt>(stream.size());
  zlib.next_out = out.data();
  zlib.avail_out = static_cast<uInt>(out.size());
  const int state = ::inflate(&zlib, Z_FINISH);
  out.resize(zlib.total_out);
  const bool all = state == Z_STREAM_END && zlib.avail_in == 0;
  ::inflateEnd(&zlib);
  return all ? std::optional(out) : std::nullopt;
}

inline std::vector<std::uint8_t> libdeflate_deflate(std::span<const std::uint8_t> content, int level) {
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> packer(
      libdeflate_alloc_compressor(level), libdeflate_free_compressor);
  std::vector<std::uint8_t> out(libdeflate_deflate_compress_bound(packer.get(), content.size()));
  out.resize(
      libdeflate_deflate_compress(packer.get(), content.data(), content.size(), out.data(), out.size()));
  return out;
}

/// Makes cases, the same ones for the same seed.
class DeflateCases {
 public:
  explicit DeflateCases(std::uint64_t seed) : random_(seed) {}

  DeflateCase next() {
    DeflateCase one;
    // Mostly small; some larger than the window of deflate.
    const std::size_t most = below(100) == 0 ? 80'000 : below(8) == 0 ? 6'000 : 500;
    one.before.resize(1 + below(most));
    fill(one.before);
    one.stream = pack(one.before);
    one.after = one.before;
    change(one.after);
    return one;
  }

 private:
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }

  void fill(std::vector<std::uint8_t>& bytes) {
    switch (below(6)) {
      case 0:
        return fill_with_floats(bytes, false);
      case 1:
        return fill_with_floats(bytes, true);
      case 2: {  // few different bytes
        const std::size_t different = 1 + below(40);
        for (auto& byte : bytes) byte = static_cast<std::uint8_t>(below(different) * 37);
        return;
      }
      case 3:  // noise
        for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random_());
        return;
      case 4: {  // runs
        for (std::size_t at = 0; at < bytes.size();) {
          const std::size_t end = std::min(bytes.size(), at + 1 + below(below(4) == 0 ? 600 : 9));
          const auto byte = static_cast<std::uint8_t>(below(5));
          for (; at < end; ++at) bytes[at] = byte;
        }
        return;
      }
      default:  // phrases that come again, at any distance
        for (std::size_t at = 0; at < bytes.size();) {
          if (at == 0 || below(3) == 0) {
            bytes[at++] = static_cast<std::uint8_t>(random_());
            continue;
          }
          const std::size_t end = std::min(bytes.size(), at + 3 + below(30));
          const std::size_t distance = 1 + below(std::min<std::size_t>(at, 40'000));
          for (; at < end; ++at) bytes[at] = bytes[at - distance];
        }
    }
  }

  /// Weights: as they are, or with the bytes of one significance together.
  void fill_with_floats(std::vector<std::uint8_t>& bytes, bool shuffled) {
    const std::size_t count = bytes.size() / 4;
    const unsigned zeros = static_cast<unsigned>(below(4));
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{0});
    for (std::size_t i = 0; i < count; ++i) {
      // As normal as it must be, and the same with every standard library.
      float value = 0;
      for (int k = 0; k < 4; ++k) value += static_cast<float>(below(2001)) / 1000.0F - 1.0F;
      if (below(4) < zeros) value = 0;
      std::uint8_t parts[4];
      std::memcpy(parts, &value, 4);
      for (std::size_t b = 0; b < 4; ++b) bytes[shuffled ? b * count + i : 4 * i + b] = parts[b];
    }
  }

  std::vector<std::uint8_t> pack(const std::vector<std::uint8_t>& content) {
    if (below(8) == 0) return libdeflate_deflate(content, static_cast<int>(below(10)));
    constexpr int strategies[] = {
        Z_DEFAULT_STRATEGY, Z_DEFAULT_STRATEGY, Z_FILTERED, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED};
    constexpr int flushes[] = {Z_SYNC_FLUSH, Z_PARTIAL_FLUSH, Z_FULL_FLUSH, Z_BLOCK};
    ZlibSettings how;
    how.level = static_cast<int>(below(10));
    how.strategy = strategies[below(6)];
    how.window_bits = static_cast<int>(9 + below(7));
    how.memory = static_cast<int>(1 + below(8));
    if (below(3) == 0) how.flushes = static_cast<unsigned>(below(5));
    how.flush = flushes[below(4)];
    return zlib_deflate(content, how);
  }

  void change(std::vector<std::uint8_t>& content) {
    const std::size_t count = below(3) == 0 ? 1 + below(12) : 1;
    std::size_t at = below(content.size());
    for (std::size_t i = 0; i < count; ++i) {
      content[at] ^= static_cast<std::uint8_t>(1U << below(8));
      at = below(2) == 0 ? below(content.size()) : std::min(content.size() - 1, at + below(40));
    }
  }

  std::mt19937_64 random_;
};

/// How a patched stream came out.
enum class DeflateOutcome { same_size, smaller, larger, declined };

/// Patches the stream of a case. nullopt where zlib does not make `after` of the result: a fault.
inline std::optional<DeflateOutcome> outcome_of(const DeflateCase& one) {
  const auto patched = deflate::patch_stream(one.stream, one.before, one.after);
  if (!patched) return DeflateOutcome::declined;
  if (zlib_inflate(*patched, one.after.size()) != one.after) return std::nullopt;
  if (patched->size() == one.stream.size()) return DeflateOutcome::same_size;
  return patched->size() < one.stream.size() ? DeflateOutcome::smaller : DeflateOutcome::larger;
}

}  // namespace bitrift::testing
