// Saving checkpoints in the background. Inside train/ only.
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
#include "sink/format/write_format.h"
#include "sink/image.h"
#include "spec/checkpoint_policy.h"
#include "train/state/copy_memory.h"

namespace bitrift::train {

using record::SaveMode;

/// Writes files from copies in memory on a separate thread, one at a time and in order. Only rank 0 writes
/// with it. Its own calls are not thread-safe.
class BackgroundSave {
 public:
  BackgroundSave() = default;
  ~BackgroundSave();
  BackgroundSave(BackgroundSave&&) = delete;
  BackgroundSave& operator=(BackgroundSave&&) = delete;

  /// image_of() these arguments; it is computed again only if they differ from those of the last call. For a
  /// format that is_compressed(), the raw image: the layout of a copy. Throws what image_of() throws.
  [[nodiscard]] std::shared_ptr<const ckpt::Image> image(
      ckpt::WriteFormat format, const std::vector<ckpt::TensorMeta>& metas,
      const std::map<std::string, std::string>& attributes);
  /// Called once, before the first save: begins to make both buffers, for files of this many bytes, on
  /// another thread. Otherwise the training would wait for new memory (docs/checkpoint-cost.md, "New
  /// memory"). memory() reports a lack of memory; throws std::system_error if there can be no other thread.
  void prepare(std::size_t bytes);
  /// The buffer for the next file, valid until start() has been called twice more. Two buffers are used in
  /// turn. Makes both, or waits until prepare() has made this one. Throws as CopyMemory does.
  [[nodiscard]] std::uint8_t* memory(std::size_t bytes);
  /// Waits for the write in progress, then starts `write` on another thread. If the earlier write failed,
  /// throws its error and does not start this one.
  void start(std::function<void()> write);
  /// Waits until no write is in progress. Throws the error of the last one, once.
  void wait();
  /// wait(), except that an error is only logged.
  void finish() noexcept;

 private:
  ckpt::WriteFormat format_ = ckpt::WriteFormat::hdf5;  // the arguments of image_
  std::vector<ckpt::TensorMeta> metas_;
  std::map<std::string, std::string> attributes_;
  std::shared_ptr<const ckpt::Image> image_;
  std::array<CopyMemory, 2> memory_;
  std::size_t next_ = 0;
  std::array<std::shared_future<void>, 2> prepared_;  // bytes of memory_, while it is being made
  std::future<void> under_way_;
};

}  // namespace bitrift::train
