// Checks of command-line options.
#pragma once

#include <CLI/CLI.hpp>

namespace bitrift::cli {

/// Refuses everything but finite numbers above 0, in one line that says what was expected.
[[nodiscard]] CLI::Validator positive_number();

}  // namespace bitrift::cli
