#include "ckpt/step_name.h"

#include <charconv>

#include <fmt/format.h>

namespace bitrift::ckpt {
namespace {

constexpr std::string_view name_start = "step-", name_end = ".h5";

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("{}{:010}{}", name_start, step, name_end);
}

std::optional<std::int64_t> step_of_name(std::string_view name) {
  if (!name.starts_with(name_start) || !name.ends_with(name_end)) return std::nullopt;
  if (name.size() <= name_start.size() + name_end.size()) return std::nullopt;
  const std::string_view digits =
      name.substr(name_start.size(), name.size() - name_start.size() - name_end.size());
  std::int64_t step = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || rest != digits.data() + digits.size() || step < 0) return std::nullopt;
  return checkpoint_name(step) == name ? std::optional(step) : std::nullopt;
}

}  // namespace bitrift::ckpt
