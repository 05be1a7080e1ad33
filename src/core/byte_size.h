// Numbers of bytes as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bitrift {

/// "4096", "512K", "1.5G": a number with K, M, G or T for powers of 1024 (also as KiB, MiB, ...). Throws
/// Error(bad_input) for anything else, for less than one byte and for more than 2^53.
[[nodiscard]] std::uint64_t parse_byte_size(std::string_view text);
/// "4.0 GiB", "312 KiB", "17 bytes": three digits at most before the unit.
[[nodiscard]] std::string byte_size_text(std::uint64_t bytes);

}  // namespace bitrift
