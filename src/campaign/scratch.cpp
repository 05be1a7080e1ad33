#include "campaign/scratch.h"

#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/digest.h"

namespace bitrift::campaign {

Scratch::Scratch(const std::string& name) {
  const std::filesystem::path memory = "/dev/shm";
  std::error_code error;
  const auto parent =
      access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path(error);
  if (error) return;
  const auto path = parent / name;
  std::filesystem::remove_all(path, error);
  if (mkdir(path.c_str(), 0700) == 0) path_ = path;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string scratch_name(const std::filesystem::path& root, const std::string& worker) {
  const std::string text = root.string();
  return fmt::format("bitrift-{}-{}-{}", geteuid(), digest_bytes(text.data(), text.size()).substr(0, 12),
                     worker);
}

}  // namespace bitrift::campaign
