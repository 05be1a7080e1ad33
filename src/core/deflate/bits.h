// Bits in the order of deflate (RFC 1951, 3.1.1): the lowest bit of a byte first.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/error.h"

namespace bitrift::deflate {

using Bytes = std::vector<std::uint8_t>;

/// Reads bits of a byte array, whose bytes must outlive it.
class BitReader {
 public:
  /// The most bits of one call.
  static constexpr unsigned most = 57;

  explicit BitReader(std::span<const std::uint8_t> bytes, std::uint64_t bit = 0) noexcept
      : bytes_(bytes), bit_(bit) {}

  /// The next bit's number, counted from the first bit of the array.
  [[nodiscard]] std::uint64_t bit() const noexcept { return bit_; }
  void skip(unsigned count) noexcept { bit_ += count; }
  /// At least `most` bits, without advancing. Bits after the end are zeros.
  [[nodiscard]] std::uint64_t peek() const noexcept {
    const std::uint64_t byte = bit_ / 8;
    std::uint64_t word = 0;
    if (byte + sizeof word <= bytes_.size()) {
      std::memcpy(&word, bytes_.data() + byte, sizeof word);
    } else if (byte < bytes_.size()) {
      std::memcpy(&word, bytes_.data() + byte, bytes_.size() - byte);
    }
    return word >> (bit_ % 8);
  }
  /// Whether all bits that peek() returns exist.
  [[nodiscard]] bool whole() const noexcept { return bit_ / 8 + sizeof(std::uint64_t) <= bytes_.size(); }
  [[nodiscard]] std::uint64_t take(unsigned count) noexcept {
    const std::uint64_t bits = peek() & ((std::uint64_t{1} << count) - 1);
    skip(count);
    return bits;
  }
  /// Throws Error(unsupported) if more bits were read than exist.
  void check() const {
    if (bit_ > 8 * bytes_.size()) fail(ErrorCode::unsupported, "deflated data ends too early");
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::uint64_t bit_;
};

/// Appends bits to a byte array.
class BitWriter {
 public:
  [[nodiscard]] std::uint64_t bits() const noexcept { return bits_; }
  /// The low `count` bits of `value`, at most BitReader::most; its other bits must be zero.
  void put(std::uint64_t value, unsigned count) {
    const std::uint64_t byte = bits_ / 8;
    if (bytes_.size() < byte + 2 * sizeof value) bytes_.resize(2 * bytes_.size() + 1024);
    std::uint64_t word = 0;
    std::memcpy(&word, bytes_.data() + byte, sizeof word);
    word |= value << (bits_ % 8);
    std::memcpy(bytes_.data() + byte, &word, sizeof word);
    bits_ += count;
  }
  /// Bits [first, end) of `from`.
  void copy(std::span<const std::uint8_t> from, std::uint64_t first, std::uint64_t end) {
    while (first < end) {
      if (first % 8 == 0 && bits_ % 8 == 0 && end - first >= 64) {
        const std::uint64_t count = (end - first) / 8;
        if (bytes_.size() < bits_ / 8 + count + 16) bytes_.resize(bits_ / 8 + count + 1024);
        std::memcpy(bytes_.data() + bits_ / 8, from.data() + first / 8, count);
        bits_ += 8 * count;
        first += 8 * count;
        continue;
      }
      // The bits up to the next whole byte of the source; after them, whole bytes can be copied.
      const std::uint64_t some = first % 8 == 0 ? 56 : 8 - first % 8;
      const auto count = static_cast<unsigned>(std::min<std::uint64_t>(some, end - first));
      put(BitReader(from, first).take(count), count);
      first += count;
    }
  }
  /// All bits that were put, with zeros up to the next whole byte.
  [[nodiscard]] std::span<const std::uint8_t> bytes() const noexcept {
    return {bytes_.data(), static_cast<std::size_t>((bits_ + 7) / 8)};
  }
  [[nodiscard]] Bytes take() {
    bytes_.resize((bits_ + 7) / 8);
    bits_ = 0;
    return std::move(bytes_);
  }

 private:
  Bytes bytes_;  // zeros after the last bit
  std::uint64_t bits_ = 0;
};

}  // namespace bitrift::deflate
