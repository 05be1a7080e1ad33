// Several files as one checkpoint: a container of containers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "archive/pickle/distributed_metadata.h"
#include "ckpt/container/container.h"
#include "ckpt/set/file_set.h"

namespace bitrift::ckpt {

/// The bytes of its files are counted through: first those of the index, then those of each file, by name.
/// Tensors have the paths that their files give them, after the prefix of the file. In a distributed
/// checkpoint they have the keys of the state_dict, and the pieces of a tensor are one tensor.
class SetContainer final : public Container {
 public:
  /// Opens all files. Throws as open_container() does, with the name of the file.
  explicit SetContainer(FileSet set);

  [[nodiscard]] FileFormat format() const noexcept override;
  [[nodiscard]] std::uint64_t bytes() const noexcept override { return files_.parts.back().end(); }
  [[nodiscard]] std::vector<Block> blocks() override;
  [[nodiscard]] std::vector<std::string> written_order() const override;
  [[nodiscard]] std::map<std::string, std::string> root_texts() const override;
  [[nodiscard]] std::vector<std::string> texts(const std::string& group,
                                               const std::string& attribute) const override;
  [[nodiscard]] bool marked_open() const noexcept override;
  [[nodiscard]] std::optional<std::string> clash(std::uint64_t first, std::uint64_t end) override;
  [[nodiscard]] std::vector<ByteExtent> metadata() const override;
  [[nodiscard]] std::unique_ptr<Rewriter> rewriter() const override;
  [[nodiscard]] std::vector<Section> sections() const override;
  [[nodiscard]] const FileList* files() const noexcept override { return &files_; }

 private:
  friend class SetRewriter;
  struct Member {
    std::unique_ptr<Container> container;
    std::size_t part = 0;    ///< its file
    std::uint64_t base = 0;  ///< of its first byte among those of all files
    std::string prefix;      ///< of its tensors' paths
    [[nodiscard]] std::uint64_t end() const { return base + container->bytes(); }
  };

  void open_files(const FileSet& set);
  void open_pieces(const FileSet& set);
  void check_index(const std::vector<Block>& blocks) const;
  [[nodiscard]] std::vector<Block> blocks_of(const Member& member) const;
  [[nodiscard]] Block tensor_block(const archive::DistributedTensor& tensor, std::size_t first_member) const;
  /// The member that holds a byte; nullptr if none does.
  [[nodiscard]] const Member* member_at(std::uint64_t offset) const;

  FileSet set_;
  FileList files_;
  std::vector<Member> members_;
  std::vector<std::size_t> by_base_;
  std::vector<archive::DistributedTensor>
      tensors_;  // of a distributed checkpoint; its members are their pieces
};

}  // namespace bitrift::ckpt
