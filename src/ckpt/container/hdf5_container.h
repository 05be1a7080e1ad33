// An HDF5 file as a container of tensors.
#pragma once

#include <deque>
#include <filesystem>
#include <mutex>
#include <vector>

#include "ckpt/container/container.h"
#include "ckpt/format/chunk_cache.h"
#include "core/file.h"
#include "h5map/h5_file.h"

namespace bitrift::ckpt {

class Hdf5Container final : public Container {
 public:
  /// `fd` holds the caller's lock. Throws as h5map::File does.
  Hdf5Container(h5map::File file, FileDescriptor fd);
  ~Hdf5Container() override;

  [[nodiscard]] FileFormat format() const noexcept override { return FileFormat::hdf5; }
  [[nodiscard]] std::uint64_t bytes() const noexcept override { return file_.source().size(); }
  [[nodiscard]] std::vector<Block> blocks() override;
  [[nodiscard]] std::vector<Block> attribute_blocks() override;
  [[nodiscard]] std::map<std::string, std::string> root_texts() const override { return file_.root_texts(); }
  [[nodiscard]] std::vector<std::string> texts(const std::string& group,
                                               const std::string& attribute) const override {
    return file_.texts(group, attribute);
  }
  [[nodiscard]] std::optional<std::string> text_of(const std::string& attribute) const override;
  [[nodiscard]] bool marked_open() const noexcept override { return file_.superblock().marked_open; }
  [[nodiscard]] std::optional<std::string> clash(std::uint64_t first, std::uint64_t end) override;
  [[nodiscard]] std::vector<ByteExtent> metadata() const override;
  [[nodiscard]] std::unique_ptr<Rewriter> rewriter() const override;
  [[nodiscard]] const h5map::File* hdf5() const noexcept override { return &file_; }

 private:
  /// path: one of its names. `runs`: where its values are stored.
  [[nodiscard]] Block describe_dataset(const h5map::Dataset& dataset, const std::string& path,
                                       std::vector<Values::StoredRun>& runs);
  void add_aliases(std::vector<Block>& blocks);
  /// primary: the first name of an object that has several; "": `path` is the first.
  void add_attributes(const std::string& object, std::uint64_t header, std::vector<Block>& blocks,
                      const std::string& primary = "");
  void keep_text(const std::string& name, const h5map::Attribute& attribute);

  h5map::File file_;
  FileDescriptor fd_;
  std::mutex lock_;  // see ValueSource
  ChunkCache kept_;
  std::uint64_t room_;  // see room_beside
  std::map<std::string, std::string, std::less<>> attribute_texts_;
  std::once_flag clashes_once_;
  std::vector<h5map::Clash> clashes_;
};

}  // namespace bitrift::ckpt
