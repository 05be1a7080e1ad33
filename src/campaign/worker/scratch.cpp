#include "campaign/worker/scratch.h"

#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "core/digest.h"
#include "core/error.h"
#include "core/log.h"

namespace bitrift::campaign {
namespace {

// The folder that holds scratch folders; empty when there is none.
std::filesystem::path scratch_parent() {
  const std::filesystem::path memory = "/dev/shm";
  std::error_code ignored;
  return access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path(ignored);
}

HeldFolder scratch_folder(const std::string& name) {
  const auto parent = scratch_parent();
  if (parent.empty()) return {};
  try {
    return HeldFolder(parent / name);
  } catch (const Error&) {
    return {};
  }
}

constexpr std::size_t digits = 12;  // of the folder's digest

std::string start_of_names() { return fmt::format("bitrift-{}-", geteuid()); }

}  // namespace

Scratch::Scratch(const std::string& name) : folder_(scratch_folder(name)) {}

std::string scratch_name(const std::filesystem::path& root, const std::string& worker) {
  const std::string text = root.string();
  return fmt::format("{}{}-{}", start_of_names(), digest_bytes(text.data(), text.size()).substr(0, digits),
                     worker);
}

bool is_scratch_name(std::string_view name) {
  const std::string start = start_of_names();
  if (!name.starts_with(start)) return false;
  name.remove_prefix(start.size());
  const std::string_view digest = name.substr(0, digits);
  return digest.size() == digits && digest.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         name.substr(digits).starts_with('-');
}

void remove_scratch_of(const std::filesystem::path& root) noexcept {
  try {
    const std::string prefix = scratch_name(root, "");
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_parent(), ignored)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(prefix) || name.find("-replay-") != std::string::npos) continue;
      std::filesystem::remove_all(entry.path(), ignored);
    }
  } catch (const std::exception& error) {
    spdlog::debug("scratch folders are not removed: {}", error.what());
  }
}

void remove_abandoned_scratch(const std::filesystem::path& parent) noexcept {
  try {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
      if (is_scratch_name(entry.path().filename().string())) remove_abandoned(entry.path());
    }
  } catch (const std::exception& error) {
    spdlog::debug("{}: abandoned folders are not removed: {}", parent.string(), error.what());
  }
}

}  // namespace bitrift::campaign
