// A zip file of torch.save as a container of tensors.
#pragma once

#include <string>

#include "archive/pickle/torch_pickle.h"
#include "ckpt/container/zip_container.h"

namespace bitrift::ckpt {

/// Tensors have the keys of the dictionaries that hold them, joined by '/'. If several tensors share the same
/// elements, all but the first in path order are aliases of it. Numbers in the pickle are not among its
/// tensors.
class TorchContainer final : public ZipContainer {
 public:
  using ZipContainer::ZipContainer;

  [[nodiscard]] FileFormat format() const noexcept override { return FileFormat::pytorch; }
  [[nodiscard]] std::vector<Block> blocks() override;
  /// The order of the dictionaries.
  [[nodiscard]] std::vector<std::string> written_order() const override { return order_; }

  /// "<root>" of the member "<root>/data.pkl"; "" when torch.save did not write the archive.
  [[nodiscard]] static std::string root_of(const archive::ZipDirectory& directory);

 private:
  [[nodiscard]] archive::TorchContents read_pickle() const;
  [[nodiscard]] bool is_big_endian() const;
  [[nodiscard]] Block describe_tensor(const archive::TorchTensor& tensor);

  std::string root_;                // see root_of()
  std::vector<std::string> order_;  // of the pickle
};

}  // namespace bitrift::ckpt
