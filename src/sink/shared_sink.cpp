#include "sink/shared_sink.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fcntl.h>
#include <sys/vfs.h>

#include "core/error.h"

namespace bitrift::ckpt {
namespace {

/// NFS and SMB clients cache whole pages: two machines that write different bytes of one page can undo each
/// other's writes.
void refuse_page_caches_of_others(const std::filesystem::path& file, const std::filesystem::path& target) {
  // magic numbers in statfs(2)
  constexpr std::array<std::uint32_t, 3> kinds = {0x6969, 0xff534d42, 0xfe534d42};
  struct statfs info {};
  if (::statfs(file.c_str(), &info) != 0) return;
  if (std::find(kinds.begin(), kinds.end(), static_cast<std::uint32_t>(info.f_type)) == kinds.end()) return;
  fail(ErrorCode::unsupported,
       "{}: is on NFS or SMB, where processes that write one file can overwrite each other's bytes; let one "
       "process write it (gather)",
       target.string());
}

}  // namespace

SharedSink::SharedSink(std::filesystem::path target) : target_(std::move(target)), first_(true) {}

SharedSink::SharedSink(std::filesystem::path target, const std::string& temporary)
    : target_(std::move(target)), temporary_(target_.parent_path() / temporary), first_(false) {}

void SharedSink::check_place(const std::filesystem::path& target) {
  const PendingFile probe(target);
  refuse_page_caches_of_others(probe.path(), target);
}

void SharedSink::begin(std::uint64_t size) {
  if (first_) {
    temporary_ = pending_.emplace(target_).path();
    refuse_page_caches_of_others(temporary_, target_);
  }
  FileDescriptor fd = open_file(temporary_, O_WRONLY | O_NOFOLLOW);
  const std::uint64_t found = size_of(fd, temporary_);
  file_.emplace(std::move(fd), target_);
  if (first_) {
    file_->resize(size);
  } else if (found != size) {
    fail(ErrorCode::conflict,
         "{}: has {} bytes and not {}: the processes that write {} must agree on its size",
         temporary_.string(), found, size, target_.string());
  }
}

void SharedSink::write(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  file_->write(offset, bytes);
}

void SharedSink::sync() { file_->sync(); }

void SharedSink::commit() {
  if (first_) {
    pending_->commit();
  } else {
    sync();
  }
}

}  // namespace bitrift::ckpt
