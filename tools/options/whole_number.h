// Checks of command-line options.
#pragma once

#include <cstdint>
#include <limits>

#include <CLI/CLI.hpp>

namespace bitrift::cli {

/// Refuses everything but whole numbers from `least` to `most`, in one line that says what was expected.
/// CLI11's own checks take -1 for 18446744073709551615, and print the limits of the type.
[[nodiscard]] CLI::Validator whole_number(std::uint64_t least = 0,
                                          std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

}  // namespace bitrift::cli
