#include "train/state/background_save.h"

#include <exception>
#include <utility>

#include "core/log.h"
#include "sink/format/image_of.h"

namespace bitrift::train {

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

std::uint8_t* BackgroundSave::memory(std::size_t bytes) {
  if (bytes > memory_[1 - next_].bytes()) wait();  // the write in progress reads from it
  for (CopyMemory& one : memory_) one.reserve(bytes);
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
