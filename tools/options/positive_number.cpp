#include "options/positive_number.h"

#include <charconv>
#include <cmath>
#include <string>

#include <fmt/format.h>

namespace bitrift::cli {

CLI::Validator positive_number(const char* what) {
  return {[what](const std::string& text) {
            double value = 0;
            const char* const end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, value);
            const bool good = error == std::errc{} && rest == end && std::isfinite(value) && value > 0;
            return good ? "" : fmt::format("expected {} above 0, found '{}'", what, text);
          },
          "", ""};
}

}  // namespace bitrift::cli
