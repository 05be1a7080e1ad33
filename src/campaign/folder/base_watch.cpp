#include "campaign/folder/base_watch.h"

#include <cerrno>
#include <utility>

#include "ckpt/set/checkpoint_files.h"
#include "core/error.h"

namespace bitrift::campaign {
namespace {

std::vector<FileStamp> look(const std::filesystem::path& base) {
  std::vector<FileStamp> all;
  for (const auto& path : ckpt::files_of(base)) {
    const auto stamp = FileStamp::of(path);
    if (!stamp) {
      fail(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
           "{}: {}: the campaign's base must stay in place: restore it and run the same command to resume",
           path.string(), errno_text(errno));
    }
    all.push_back(*stamp);
  }
  return all;
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
  std::vector<FileStamp> now = look(path_);
  if (now == seen_) return;
  check_digest(path_, digest_);
  seen_ = std::move(now);
}

}  // namespace bitrift::campaign
