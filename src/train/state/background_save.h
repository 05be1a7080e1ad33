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
#include "sink/image.h"
#include "spec/checkpoint_policy.h"

namespace bitrift::train {

using record::SaveMode;

/// Writes files from copies in memory on a thread of its own, one at a time and in order. Only rank 0 uses
/// it. Its own calls are not thread-safe.
class BackgroundSave {
 public:
  BackgroundSave() = default;
  ~BackgroundSave() { finish(); }
  BackgroundSave(BackgroundSave&&) = delete;
  BackgroundSave& operator=(BackgroundSave&&) = delete;

  /// hdf5_image() of these arguments, computed again only if they differ from those of the last call. Throws
  /// what it throws.
  [[nodiscard]] std::shared_ptr<const ckpt::Image> image(
      const std::vector<ckpt::TensorMeta>& metas, const std::map<std::string, std::string>& attributes);
  /// The buffer for the next file, valid until start() has been called twice more. Two buffers are used in
  /// turn and kept: writing to new pages takes several times as long as writing to used ones.
  [[nodiscard]] std::uint8_t* memory(std::size_t bytes);
  /// Waits for the write in progress, then starts `write` on another thread. If the earlier write failed,
  /// throws its error and does not start this one.
  void start(std::function<void()> write);
  /// Waits until no write is in progress. Throws the error of the last one, once.
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
