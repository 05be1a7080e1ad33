#include "sink/shared_sink.h"

#include <utility>

#include <fcntl.h>

#include "core/error.h"

namespace bitrift::ckpt {

SharedSink::SharedSink(std::filesystem::path target) : target_(std::move(target)), first_(true) {}

SharedSink::SharedSink(std::filesystem::path target, const std::string& temporary)
    : target_(std::move(target)), temporary_(target_.parent_path() / temporary), first_(false) {}

void SharedSink::begin(std::uint64_t size) {
  if (first_) temporary_ = pending_.emplace(target_).path();
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
