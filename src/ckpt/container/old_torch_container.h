// A file that torch.save wrote before PyTorch 1.6, without a zip archive, as a container of tensors.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "archive/pickle/old_torch_file.h"
#include "ckpt/container/container.h"
#include "ckpt/format/chunk_cache.h"
#include "ckpt/format/member_values.h"
#include "core/file.h"

namespace bitrift::ckpt {

/// Names and aliases are those of TorchContainer. Nothing in the file depends on the values.
class OldTorchContainer final : public Container {
 public:
  /// `fd` holds the caller's lock. Throws as archive::read_old_torch_file() does.
  OldTorchContainer(const std::filesystem::path& path, FileDescriptor fd);

  [[nodiscard]] FileFormat format() const noexcept override { return FileFormat::pytorch; }
  [[nodiscard]] std::uint64_t bytes() const noexcept override { return file_.size(); }
  [[nodiscard]] std::vector<Block> blocks() override;
  /// The order of the dictionaries.
  [[nodiscard]] std::vector<std::string> written_order() const override { return order_; }
  [[nodiscard]] std::map<std::string, std::string> root_texts() const override { return old_.contents.texts; }
  [[nodiscard]] std::vector<ByteExtent> metadata() const override;
  [[nodiscard]] std::unique_ptr<Rewriter> rewriter() const override;

 private:
  [[nodiscard]] Block describe_tensor(const archive::TorchTensor& tensor);

  FileDescriptor fd_;
  archive::BoundedFile file_;
  archive::OldTorchFile old_;
  std::map<std::string, const archive::OldTorchFile::Storage*> storages_;  // by key
  std::vector<std::string> order_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> values_;  // bytes of tensors in the file
  std::mutex lock_;
  ChunkCache kept_;
};

}  // namespace bitrift::ckpt
