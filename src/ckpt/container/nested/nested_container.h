// A zip archive of files that torch.save wrote.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ckpt/container/torch_container.h"
#include "ckpt/container/zip_container.h"

namespace bitrift::ckpt {

/// An archive that holds files of torch.save, stored or deflated, such as what Stable-Baselines3 saves:
/// policy.pth and policy.optimizer.pth. A tensor's path begins with the name of its file, without the
/// extension if that is unique. When values are altered, the CRC-32 is updated in both archives.
class NestedContainer final : public ZipContainer {
 public:
  /// Whether a member has the name of a file of torch.save.
  [[nodiscard]] static bool holds_files(const archive::ZipDirectory& directory);
  /// `fd` holds the caller's lock. Throws Error(unsupported) if such a file was not written by torch.save,
  /// Error(bad_file) if it is damaged. Deflated files are unpacked in memory.
  NestedContainer(std::unique_ptr<const archive::BoundedFile> file, archive::ZipDirectory directory,
                  FileDescriptor fd);

  [[nodiscard]] FileFormat format() const noexcept override { return FileFormat::pytorch; }
  [[nodiscard]] std::vector<Block> blocks() override;
  [[nodiscard]] std::vector<std::string> written_order() const override;
  [[nodiscard]] std::unique_ptr<Rewriter> rewriter() const override;

 private:
  friend class NestedRewriter;
  struct Part {
    std::shared_ptr<const Member> member;
    std::unique_ptr<TorchContainer> file;
    std::uint64_t base = 0;  ///< of its first byte; of a deflated file: after the archive's end
    std::string prefix;      ///< of its tensors' paths
  };
  void note_values_of(const Part& part);

  std::vector<Part> parts_;  // ascending
};

}  // namespace bitrift::ckpt
