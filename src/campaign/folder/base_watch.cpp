#include "campaign/folder/base_watch.h"

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "ckpt/set/checkpoint_files.h"
#include "core/error.h"

namespace bitrift::campaign {
namespace {

// The fields that every change of a file changes; times are from the kernel's clock, which nobody sets back
// by chance.
auto stamp(const struct stat& file) {
  return std::tuple(file.st_dev, file.st_ino, file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec,
                    file.st_ctim.tv_sec, file.st_ctim.tv_nsec);
}

std::vector<struct stat> look(const std::filesystem::path& base) {
  std::vector<struct stat> all;
  for (const auto& path : ckpt::files_of(base)) {
    struct stat& found = all.emplace_back();
    if (stat(path.c_str(), &found) == 0) continue;
    fail(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
         "{}: {}: the campaign's base must stay in place: restore it and run the same command to resume",
         path.string(), errno_text(errno));
  }
  return all;
}

bool same_stamps(const std::vector<struct stat>& one, const std::vector<struct stat>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const struct stat& a, const struct stat& b) { return stamp(a) == stamp(b); });
}

}  // namespace

void check_digest(const std::filesystem::path& path, const std::string& digest) {
  if (ckpt::digest_of(path) == digest) return;
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
  std::vector<struct stat> now = look(path_);
  if (same_stamps(now, seen_)) return;
  check_digest(path_, digest_);
  seen_ = std::move(now);
}

}  // namespace bitrift::campaign
