// Texts as NumPy's Unicode arrays hold them: 4 bytes for each character.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bitrift::archive {

/// UTF-8 to UTF-32, little-endian. Throws Error(bad_input), "<what>: ...", for invalid UTF-8.
[[nodiscard]] std::vector<std::uint8_t> utf32_of(std::string_view utf8, const std::string& what);
/// The inverse, without zeros at the end, as NumPy reads it. nullopt for invalid UTF-32.
[[nodiscard]] std::optional<std::string> utf8_of(std::span<const std::uint8_t> utf32, bool big_endian);

}  // namespace bitrift::archive
