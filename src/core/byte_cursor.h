// Reads numbers and bytes from untrusted bytes, one after another.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/error.h"

namespace bitrift {

/// Removes little-endian fields from the front of some bytes. All members throw Error "<name>: <what> ends
/// too early" when fewer bytes are left than they need.
class ByteCursor {
 public:
  /// `name` (of a file; may be empty), `what` (the part of it) and `code` are for errors. The bytes and both
  /// texts must outlive the cursor.
  ByteCursor(std::span<const std::uint8_t> bytes, std::string_view name, std::string_view what,
             ErrorCode code = ErrorCode::bad_file)
      : bytes_(bytes), name_(name), what_(what), code_(code) {}

  /// Unsigned field of 0 to 8 bytes.
  [[nodiscard]] std::uint64_t number(unsigned bytes);
  [[nodiscard]] std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  [[nodiscard]] std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  [[nodiscard]] std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  [[nodiscard]] std::uint64_t u64() { return number(8); }
  /// A part of the bytes, not a copy.
  [[nodiscard]] std::span<const std::uint8_t> take(std::uint64_t count);
  void skip(std::uint64_t count) { (void)take(count); }
  [[nodiscard]] std::uint64_t position() const noexcept { return at_; }  ///< bytes taken so far
  [[nodiscard]] std::uint64_t left() const noexcept { return bytes_.size() - at_; }

 private:
  std::span<const std::uint8_t> bytes_;
  std::string_view name_, what_;
  ErrorCode code_;
  std::uint64_t at_ = 0;
};

}  // namespace bitrift
