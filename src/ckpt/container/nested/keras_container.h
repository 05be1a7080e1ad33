// A .keras archive: an HDF5 file in a zip archive.
#pragma once

#include <memory>
#include <string_view>

#include "ckpt/container/hdf5_container.h"
#include "ckpt/container/zip_container.h"

namespace bitrift::ckpt {

/// The tensors of the archive's HDF5 file; all offsets are those of the archive. When values are altered, the
/// CRC-32 of the HDF5 file is updated. A stored file keeps its size; a deflated one is unpacked in memory.
class KerasContainer final : public ZipContainer {
 public:
  /// The member that holds the weights.
  static constexpr std::string_view weights_name = "model.weights.h5";

  /// `fd` holds the caller's lock. Throws as h5map::File does, and as unpacked().
  KerasContainer(std::unique_ptr<const archive::BoundedFile> file, archive::ZipDirectory directory,
                 FileDescriptor fd);

  [[nodiscard]] FileFormat format() const noexcept override { return FileFormat::hdf5; }
  [[nodiscard]] std::vector<Block> blocks() override;
  [[nodiscard]] std::vector<Block> attribute_blocks() override;
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
  [[nodiscard]] std::optional<std::string> clash(std::uint64_t first, std::uint64_t end) override;
  [[nodiscard]] std::vector<ByteExtent> metadata() const override;
  [[nodiscard]] std::unique_ptr<Rewriter> rewriter() const override;
  /// nullptr if it is deflated: its places are not those of the archive.
  [[nodiscard]] const h5map::File* hdf5() const noexcept override {
    return packed_ ? nullptr : weights_.hdf5();
  }

 private:
  [[nodiscard]] const archive::ZipMember& weights_member() const { return *directory().find(weights_name); }
  [[nodiscard]] std::vector<Block> packed(std::vector<Block> blocks);

  std::shared_ptr<const Member> packed_;  // the weights, if they are deflated
  Hdf5Container weights_;
};

}  // namespace bitrift::ckpt
