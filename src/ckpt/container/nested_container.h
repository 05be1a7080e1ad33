// A zip archive of files that torch.save wrote.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ckpt/container/torch_container.h"
#include "ckpt/container/zip_container.h"

namespace bitrift::ckpt {

/// An archive that holds files of torch.save as they are, such as what Stable-Baselines3 saves: policy.pth
/// and policy.optimizer.pth. A tensor's path begins with the name of its file, without the extension if that
/// is unique. When values are altered, the CRC-32 is updated in both archives.
class NestedContainer final : public ZipContainer {
 public:
  /// Whether a member has the name of a file of torch.save.
  [[nodiscard]] static bool holds_files(const archive::ZipDirectory& directory);
  /// `fd` holds the caller's lock. Throws Error(unsupported) if such a file is compressed, or was not
  /// written by torch.save, Error(bad_file) if it is damaged.
  NestedContainer(std::unique_ptr<const archive::BoundedFile> file, archive::ZipDirectory directory,
                  FileDescriptor fd);

  [[nodiscard]] FileFormat format() const noexcept override { return FileFormat::pytorch; }
  [[nodiscard]] std::vector<Block> blocks() override;
  [[nodiscard]] std::vector<std::string> written_order() const override;
  [[nodiscard]] std::unique_ptr<Rewriter> rewriter() const override;

 private:
  friend class NestedRewriter;
  struct Part {
    std::unique_ptr<TorchContainer> file;
    std::uint64_t base = 0;  ///< of its first byte
    std::string prefix;      ///< of its tensors' paths
  };

  std::vector<Part> parts_;  // ascending
};

}  // namespace bitrift::ckpt
