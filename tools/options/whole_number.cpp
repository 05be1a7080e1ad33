#include "options/whole_number.h"

#include <charconv>
#include <string>

#include <fmt/format.h>

namespace bitrift::cli {
namespace {

std::string expected(std::uint64_t least, std::uint64_t most) {
  if (most == std::numeric_limits<std::uint64_t>::max()) {
    return least == 0 ? "from 0 to 2^64 - 1" : fmt::format("of at least {}", least);
  }
  return fmt::format("from {} to {}", least, most);
}

}  // namespace

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  return {[least, most](const std::string& text) {
            std::uint64_t value = 0;
            const char* const end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, value);
            const bool good = error == std::errc{} && rest == end && value >= least && value <= most;
            return good ? ""
                        : fmt::format("expected a whole number {}, found '{}'", expected(least, most), text);
          },
          "", ""};
}

}  // namespace bitrift::cli
