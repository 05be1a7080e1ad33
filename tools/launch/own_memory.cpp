#include "launch/own_memory.h"

#include <array>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

namespace bitrift::cli {

std::string own_memory(int file) { return fmt::format("/proc/{}/fd/{}", ::getpid(), file); }

bool is_own_memory(const char* path, const char* name) noexcept {
  constexpr std::string_view start = "/memfd:";  // then the name, and " (deleted)"
  std::array<char, 64> text{};
  const ssize_t length = ::readlink(path, text.data(), text.size());
  std::string_view found(text.data(), length < 0 ? 0 : static_cast<std::size_t>(length));
  if (!found.starts_with(start)) return false;
  found.remove_prefix(start.size());
  return found.substr(0, found.find(' ')) == name;
}

}  // namespace bitrift::cli
