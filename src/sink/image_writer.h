// Fills an image through a sink.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sink/image.h"
#include "sink/sink.h"

namespace bitrift::ckpt {

/// Writes a checkpoint's file, or the part of one process. Both arguments must outlive it. A whole file:
/// fixed(), every tensor() in any order, commit(). A part (SharedSink): one process calls fixed(), each gives
/// its tensors and calls checksums(), and then does what the sink demands.
class ImageWriter {
 public:
  /// Calls sink.begin().
  ImageWriter(const Image& image, Sink& sink);
  /// Writes all bytes that belong to no tensor and no checksum.
  void fixed();
  /// Writes all bytes of one tensor (little-endian, row-major) and computes their checksum. Each exactly
  /// once; throws Error(internal) otherwise.
  void tensor(std::string_view path, const void* data, std::size_t bytes);
  /// Writes the checksums of the tensors that were given. Once.
  void checksums();
  /// Checks that every tensor came, writes the checksums and commits the sink.
  void commit();

 private:
  const Image& image_;
  Sink& sink_;
  std::vector<std::optional<std::uint32_t>> sums_;  // of image_.tensors
};

}  // namespace bitrift::ckpt
