// A checkpoint in a compressed format: tensors are packed in memory as they arrive.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ckpt/tensor.h"
#include "sink/format/write_format.h"
#include "sink/sink.h"

namespace bitrift::ckpt {

/// Holds the compressed file until write(). Equal tensors give equal bytes.
class Packer {
 public:
  Packer() = default;
  virtual ~Packer() = default;
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  /// Packs one tensor, little-endian and row-major. In path order.
  virtual void tensor(const TensorMeta& meta, const void* data) = 0;
  /// Begins the sink and writes the whole file; the caller commits. Once, last.
  virtual void write(Sink& sink) = 0;
};

/// format: one that is_compressed(). metas: all tensors, sorted, and of types that it holds. Throws
/// Error(bad_input | unsupported).
[[nodiscard]] std::unique_ptr<Packer> make_packer(WriteFormat format, const std::vector<TensorMeta>& metas,
                                                  const std::map<std::string, std::string>& attributes);

}  // namespace bitrift::ckpt
