// A .keras archive: an HDF5 file in a zip archive.
#pragma once

#include <memory>
#include <string_view>

#include "archive/zip_directory.h"
#include "ckpt/container/hdf5_container.h"
#include "core/file.h"

namespace bitrift::ckpt {

/// The tensors of the archive's HDF5 file, which is stored as it is; all offsets are those of the archive.
/// When values are altered, the CRC-32 of the HDF5 file follows, and its size stays.
class KerasContainer final : public Container {
 public:
  /// The member that holds the weights.
  static constexpr std::string_view weights_name = "model.weights.h5";

  /// `fd` holds the caller's lock. Throws as h5map::File does, Error(unsupported) when the member is
  /// compressed.
  KerasContainer(std::unique_ptr<const archive::BoundedFile> file, archive::ZipDirectory directory,
                 FileDescriptor fd);

  [[nodiscard]] FileFormat format() const noexcept override { return FileFormat::hdf5; }
  [[nodiscard]] std::uint64_t bytes() const noexcept override { return file_->size(); }
  [[nodiscard]] std::vector<Block> blocks() override { return weights_.blocks(); }
  [[nodiscard]] std::vector<Block> attribute_blocks() override { return weights_.attribute_blocks(); }
  [[nodiscard]] std::map<std::string, std::string> root_texts() const override {
    return weights_.root_texts();
  }
  [[nodiscard]] std::vector<std::string> texts(const std::string& group,
                                               const std::string& attribute) const override {
    return weights_.texts(group, attribute);
  }
  [[nodiscard]] std::optional<std::string> text_of(const std::string& attribute) const override {
    return weights_.text_of(attribute);
  }
  [[nodiscard]] bool marked_open() const noexcept override { return weights_.marked_open(); }
  [[nodiscard]] std::optional<std::string> clash(std::uint64_t first, std::uint64_t end) override {
    return weights_.clash(first, end);
  }
  [[nodiscard]] std::vector<ByteExtent> metadata() const override;
  [[nodiscard]] std::unique_ptr<Rewriter> rewriter() const override;
  [[nodiscard]] const h5map::File* hdf5() const noexcept override { return weights_.hdf5(); }
  [[nodiscard]] const archive::ZipDirectory* zip() const noexcept override { return &directory_; }

 private:
  [[nodiscard]] const archive::ZipMember& weights_member() const { return *directory_.find(weights_name); }

  std::unique_ptr<const archive::BoundedFile> file_;
  archive::ZipDirectory directory_;
  Hdf5Container weights_;
};

}  // namespace bitrift::ckpt
