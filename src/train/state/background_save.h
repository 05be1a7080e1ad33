// Saving a checkpoint behind the training. Inside train/ only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ckpt/tensor.h"
#include "core/named_enum.h"
#include "sink/image.h"

namespace bitrift::train {

/// When a save returns.
enum class SaveMode {
  sync,   ///< when the disk has the file
  async,  ///< when the state is copied: the file is written behind the training
};
constexpr EnumNames<2> names_of(SaveMode) { return {"mode of saving", {"sync", "async"}}; }

/// Writes files that were copied into its memory, one at a time and in order. Of one process: rank 0. Not
/// thread-safe.
class BackgroundSave {
 public:
  BackgroundSave() = default;
  ~BackgroundSave() { finish(); }
  BackgroundSave(BackgroundSave&&) = delete;
  BackgroundSave& operator=(BackgroundSave&&) = delete;

  /// hdf5_image() of these, made once for saves that follow each other with equal ones. Throws as it does.
  [[nodiscard]] std::shared_ptr<const ckpt::Image> image(
      const std::vector<ckpt::TensorMeta>& metas, const std::map<std::string, std::string>& attributes);
  /// Memory for the next file, valid until start() was called twice more. There are two pieces in turns,
  /// which are kept: writing to new pages takes several times as long as writing to used ones.
  [[nodiscard]] std::uint8_t* memory(std::size_t bytes);
  /// Calls `write` on a thread of its own. Waits for the one before first, and throws what that threw: then
  /// this one is not called.
  void start(std::function<void()> write);
  /// Until nothing is under way. Throws what the last one threw, once.
  void wait();
  /// wait(), but an error is only logged.
  void finish() noexcept;

 private:
  std::vector<ckpt::TensorMeta> metas_;  // of image_
  std::map<std::string, std::string> attributes_;
  std::shared_ptr<const ckpt::Image> image_;
  std::array<std::vector<std::uint8_t>, 2> memory_;
  std::size_t next_ = 0;
  std::future<void> under_way_;
};

}  // namespace bitrift::train
