#include "campaign/folder/base_watch.h"

#include <cerrno>
#include <tuple>
#include <utility>

#include "core/digest.h"
#include "core/error.h"

namespace bitrift::campaign {
namespace {

// The fields that every change of a file changes; times are from the kernel's clock, which nobody sets back
// by chance.
auto stamp(const struct stat& file) {
  return std::tuple(file.st_dev, file.st_ino, file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec,
                    file.st_ctim.tv_sec, file.st_ctim.tv_nsec);
}

struct stat look(const std::filesystem::path& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) {
    fail(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
         "{}: {}: the campaign's base must stay in place: restore it and run the same command to resume",
         path.string(), errno_text(errno));
  }
  return found;
}

}  // namespace

void check_digest(const std::filesystem::path& path, const std::string& digest) {
  if (digest_file(path) == digest) return;
  fail(ErrorCode::conflict,
       "{}: changed since the campaign began (its digest is no longer {}): restore it, or start a new "
       "campaign in another folder",
       path.string(), digest);
}

BaseWatch::BaseWatch(std::filesystem::path path, std::string digest)
    : path_(std::move(path)), digest_(std::move(digest)) {
  // The status is taken before the content is read: a change in between is seen at the next check.
  seen_ = look(path_);
  check_digest(path_, digest_);
}

void BaseWatch::check() {
  const struct stat now = look(path_);
  if (stamp(now) == stamp(seen_)) return;
  check_digest(path_, digest_);
  seen_ = now;
}

}  // namespace bitrift::campaign
