#include "ckpt/container/safetensors_container.h"

#include <algorithm>
#include <utility>

#include "ckpt/container/array_block.h"

namespace bitrift::ckpt {

SafetensorsContainer::SafetensorsContainer(const std::filesystem::path& path, FileDescriptor fd)
    : fd_(std::move(fd)), file_(path), header_(archive::read_safetensors_header(file_)) {}

std::vector<Block> SafetensorsContainer::blocks() {
  std::vector<Block> blocks;
  blocks.reserve(header_.tensors.size());
  for (const archive::SafeTensor& tensor : header_.tensors) {
    auto member = std::make_shared<Member>(
        Member{file_, lock_, kept_, file_.name() + ": " + archive::printable(tensor.name), tensor.first,
               tensor.end - tensor.first, tensor.end - tensor.first, false, 0, ""});
    const std::uint64_t bytes = member->bytes;
    blocks.push_back(array_block(tensor.name, tensor.type, tensor.shape, {std::move(member), 0, bytes}));
  }
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.path < b.path; });
  return blocks;
}

std::vector<ByteExtent> SafetensorsContainer::metadata() const {
  return {{0, 8, "length of the header"}, {8, header_.bytes, "header"}};
}

std::unique_ptr<Rewriter> SafetensorsContainer::rewriter() const {
  return std::make_unique<NothingFollows>();
}

}  // namespace bitrift::ckpt
