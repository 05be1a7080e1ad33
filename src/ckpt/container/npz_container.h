// An npz file of NumPy as a container of tensors.
#pragma once

#include "ckpt/container/zip_container.h"

namespace bitrift::ckpt {

/// Arrays have the names of their members without ".npy", as numpy.load() gives them. A member that is not an
/// array is one opaque tensor; an array that cannot be read is listed with the reason. A single Unicode text
/// whose name begins with '@' is not a tensor, but a text of the file (docs/checkpoint-formats.md).
class NpzContainer final : public ZipContainer {
 public:
  using ZipContainer::ZipContainer;

  [[nodiscard]] FileFormat format() const noexcept override { return FileFormat::npz; }
  [[nodiscard]] std::vector<Block> blocks() override;

 private:
  /// Whether it is a text of the file, which is then kept.
  [[nodiscard]] bool keep_if_text(const archive::ZipMember& member);
  [[nodiscard]] Block describe_member(const archive::ZipMember& member);
  [[nodiscard]] Block describe_array(const archive::ZipMember& member,
                                     const std::shared_ptr<const Member>& bytes);

  std::uint64_t text_room_ = std::uint64_t{64} << 20U;  // bytes that texts may still use
};

}  // namespace bitrift::ckpt
