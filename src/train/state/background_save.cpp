#include "train/state/background_save.h"

#include <exception>
#include <utility>

#include "core/log.h"
#include "sink/format/image_of.h"

namespace bitrift::train {

BackgroundSave::~BackgroundSave() {
  finish();
  for (const auto& one : prepared_) {
    if (one.valid()) one.wait();
  }
}

void BackgroundSave::finish() noexcept {
  try {
    wait();
  } catch (const std::exception& error) {
    spdlog::error("a checkpoint was not saved: {}", error.what());
  }
}

std::shared_ptr<const ckpt::Image> BackgroundSave::image(
    ckpt::WriteFormat format, const std::vector<ckpt::TensorMeta>& metas,
    const std::map<std::string, std::string>& attributes) {
  if (!image_ || format != format_ || metas != metas_ || attributes != attributes_) {
    ckpt::check_holds(format, metas);
    const auto laid_out = ckpt::is_compressed(format) ? ckpt::WriteFormat::raw : format;
    image_ = std::make_shared<const ckpt::Image>(ckpt::image_of(laid_out, metas, attributes));
    format_ = format;
    metas_ = metas;
    attributes_ = attributes;
  }
  return image_;
}

void BackgroundSave::prepare(std::size_t bytes) {
  if (memory_[next_].bytes() > 0 || prepared_[next_].valid()) return;
  std::shared_future<void> before;
  for (const std::size_t which : {next_, 1 - next_}) {
    prepared_[which] = std::async(std::launch::async, [&memory = memory_[which], bytes, before] {
      if (before.valid()) before.wait();
      memory.reserve(bytes);
    });
    before = prepared_[which];
  }
}

std::uint8_t* BackgroundSave::memory(std::size_t bytes) {
  // A failed write is tried again below, where it can be reported.
  if (prepared_[next_].valid()) std::exchange(prepared_[next_], {}).wait();
  memory_[next_].reserve(bytes);
  // If there is too little memory for two buffers, the first save fails.
  if (!prepared_[1 - next_].valid() && memory_[1 - next_].bytes() == 0) memory_[1 - next_].reserve(bytes);
  return memory_[next_].data();
}

void BackgroundSave::start(std::function<void()> write) {
  wait();
  next_ = 1 - next_;
  under_way_ = std::async(std::launch::async, std::move(write));
}

void BackgroundSave::wait() {
  if (under_way_.valid()) std::exchange(under_way_, {}).get();
}

}  // namespace bitrift::train
