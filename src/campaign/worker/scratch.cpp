#include "campaign/worker/scratch.h"

#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/digest.h"
#include "core/log.h"

namespace bitrift::campaign {

namespace {

// The folder that holds scratch folders; empty when there is none.
std::filesystem::path scratch_parent() {
  const std::filesystem::path memory = "/dev/shm";
  std::error_code ignored;
  return access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path(ignored);
}

}  // namespace

Scratch::Scratch(const std::string& name) {
  const auto parent = scratch_parent();
  if (parent.empty()) return;
  const auto path = parent / name;
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
  if (mkdir(path.c_str(), 0700) == 0) path_ = path;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
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

std::string scratch_name(const std::filesystem::path& root, const std::string& worker) {
  const std::string text = root.string();
  return fmt::format("bitrift-{}-{}-{}", geteuid(), digest_bytes(text.data(), text.size()).substr(0, 12),
                     worker);
}

}  // namespace bitrift::campaign
