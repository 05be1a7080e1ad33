// Sizes, times and rates as people write them.
#pragma once

#include <string>
#include <string_view>

namespace bitrift::comm {

/// "102M": a decimal number, then nothing, K, M, G or T (powers of 1000); rounded to whole bytes. Throws
/// Error(bad_input) that begins with `what` for anything else, less than 1 byte and more than 1000T.
[[nodiscard]] double bytes_from_text(std::string_view text, std::string_view what);

/// "83G", the same in bytes per second.
[[nodiscard]] double bandwidth_from_text(std::string_view text, std::string_view what);

/// "0.1us": a decimal number and ns, us, ms or s. Throws Error(bad_input) for anything else and more than
/// 1000s.
[[nodiscard]] double seconds_from_text(std::string_view text, std::string_view what);

/// "853.7 us": in the unit that leaves one to three digits before the point.
[[nodiscard]] std::string seconds_text(double seconds);

/// "1.34 GB", likewise.
[[nodiscard]] std::string bytes_text(double bytes);

}  // namespace bitrift::comm
