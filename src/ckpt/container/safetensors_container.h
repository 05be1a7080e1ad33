// A safetensors file as a container of tensors.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>

#include "archive/safetensors_header.h"
#include "ckpt/container/container.h"
#include "ckpt/format/chunk_cache.h"
#include "core/file.h"

namespace bitrift::ckpt {

/// Tensors have the names of the header, texts those of its "__metadata__".
class SafetensorsContainer final : public Container {
 public:
  /// `fd` holds the caller's lock. Throws as archive::read_safetensors_header() does.
  SafetensorsContainer(const std::filesystem::path& path, FileDescriptor fd);

  [[nodiscard]] FileFormat format() const noexcept override { return FileFormat::safetensors; }
  [[nodiscard]] std::uint64_t bytes() const noexcept override { return file_.size(); }
  [[nodiscard]] std::vector<Block> blocks() override;
  [[nodiscard]] std::map<std::string, std::string> root_texts() const override { return header_.metadata; }
  [[nodiscard]] std::vector<ByteExtent> metadata() const override;
  [[nodiscard]] std::unique_ptr<Rewriter> rewriter() const override;

 private:
  FileDescriptor fd_;
  archive::BoundedFile file_;
  archive::SafetensorsHeader header_;
  std::mutex lock_;
  ChunkCache kept_;
};

}  // namespace bitrift::ckpt
