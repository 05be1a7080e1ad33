// Checks of command-line options.
#pragma once

#include <CLI/CLI.hpp>

namespace bitrift::cli {

/// Refuses everything but finite numbers above 0, in one line that says what was expected: `what` above 0.
[[nodiscard]] CLI::Validator positive_number(const char* what = "a number");

}  // namespace bitrift::cli
