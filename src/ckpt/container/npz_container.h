// An npz file of NumPy as a container of tensors.
#pragma once

#include "ckpt/container/zip_container.h"

namespace bitrift::ckpt {

/// Arrays have the names of their members without ".npy", as numpy.load() gives them. A member that is no
/// array is one opaque tensor; an array that cannot be read is listed with the reason.
class NpzContainer final : public ZipContainer {
 public:
  using ZipContainer::ZipContainer;

  [[nodiscard]] FileFormat format() const noexcept override { return FileFormat::npz; }
  [[nodiscard]] std::vector<Block> blocks() override;

 private:
  [[nodiscard]] Block describe_member(const archive::ZipMember& member);
  [[nodiscard]] Block describe_array(const archive::ZipMember& member,
                                     const std::shared_ptr<const Member>& bytes);
};

}  // namespace bitrift::ckpt
