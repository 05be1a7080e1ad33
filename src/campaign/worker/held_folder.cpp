#include "campaign/worker/held_folder.h"

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"

namespace bitrift::campaign {
namespace {

FileDescriptor open_folder(const std::filesystem::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool take(const FileDescriptor& fd) { return ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0; }

/// Whether the open folder still has this name.
bool is_at(const FileDescriptor& fd, const std::filesystem::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(fd.get(), &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/// Removes a folder while holding its lock. Otherwise two programs could remove it at once, and the slower
/// one would remove what the other has made in its place. Waits up to two seconds for a program that removes
/// it.
void remove_left(const std::filesystem::path& path) {
  using namespace std::chrono_literals;
  const FileDescriptor fd = open_folder(path);
  for (int tries = 0; fd && !take(fd) && tries < 100; ++tries) std::this_thread::sleep_for(20ms);
  std::error_code ignored;
  if (!fd || is_at(fd, path)) std::filesystem::remove_all(path, ignored);
}

}  // namespace

HeldFolder::HeldFolder(const std::filesystem::path& path) {
  remove_left(path);
  // The folder is locked before it gets its name.
  const auto hidden = path.parent_path() / fmt::format(".{}.{}", path.filename().string(), ::getpid());
  std::error_code error;
  std::filesystem::remove_all(hidden, error);
  const auto failed = [&](int number) {
    const std::string reason = errno_text(number);
    std::filesystem::remove(hidden, error);
    fail(ErrorCode::io, "{}: cannot be made: {}", path.string(), reason);
  };
  if (::mkdir(hidden.c_str(), S_IRWXU) != 0) failed(errno);
  lock_ = open_folder(hidden);
  if (!lock_) failed(errno);
  (void)take(lock_);  // on a file system without locks, nobody else gets one either
  if (::rename(hidden.c_str(), path.c_str()) != 0) failed(errno);
  path_ = path;
}

HeldFolder::~HeldFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

void remove_abandoned(const std::filesystem::path& folder) {
  const FileDescriptor fd = open_folder(folder);
  std::error_code ignored;
  if (fd && take(fd) && is_at(fd, folder)) std::filesystem::remove_all(folder, ignored);
}

}  // namespace bitrift::campaign
