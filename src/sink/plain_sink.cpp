#include "sink/plain_sink.h"

#include <utility>

#include <fcntl.h>

namespace bitrift::ckpt {

PlainSink::PlainSink(std::filesystem::path target) : target_(std::move(target)) {}

void PlainSink::begin(std::uint64_t size) {
  pending_.emplace(target_);
  file_.emplace(open_file(pending_->path(), O_WRONLY), target_);
  file_->resize(size);
}

void PlainSink::write(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  file_->write(offset, bytes);
}

void PlainSink::commit() { pending_->commit(); }

}  // namespace bitrift::ckpt
