#include "ckpt/container/old_torch_container.h"

#include <algorithm>

#include "ckpt/container/array_block.h"
#include "ckpt/container/torch_blocks.h"
#include "core/error.h"

namespace bitrift::ckpt {

OldTorchContainer::OldTorchContainer(const std::filesystem::path& path, FileDescriptor fd)
    : fd_(std::move(fd)), file_(path), old_(archive::read_old_torch_file(file_)) {
  for (const archive::OldTorchFile::Storage& one : old_.storages) storages_.emplace(one.key, &one);
  for (const archive::TorchTensor& tensor : old_.contents.tensors) order_.push_back(tensor.path);
}

Block OldTorchContainer::describe_tensor(const archive::TorchTensor& tensor) {
  const auto found = storages_.find(tensor.storage);
  if (found == storages_.end()) {
    fail(ErrorCode::bad_file, "{}: tensor {} has its values in storage {}, which the file does not hold",
         file_.name(), archive::printable(tensor.path), archive::printable(tensor.storage));
  }
  const archive::OldTorchFile::Storage& storage = *found->second;
  if (tensor.first != tensor.end)
    values_.emplace_back(storage.data + tensor.first, storage.data + tensor.end);
  auto member = std::make_shared<Member>(Member{file_, lock_, kept_,
                                                file_.name() + ": " + archive::printable(tensor.path),
                                                storage.data, storage.bytes, storage.bytes, false, 0, ""});
  return array_block(tensor.path, tensor.type, tensor.shape,
                     {std::move(member), tensor.first, tensor.end, tensor.strides});
}

std::vector<Block> OldTorchContainer::blocks() {
  return torch_blocks(std::move(old_.contents.tensors),
                      [this](const archive::TorchTensor& tensor) { return describe_tensor(tensor); });
}

std::vector<ByteExtent> OldTorchContainer::metadata() const {
  std::vector<ByteExtent> extents = {{0, old_.pickles, "pickles"}};
  auto values = values_;
  std::sort(values.begin(), values.end());
  auto value = values.begin();
  std::uint64_t at = old_.pickles;
  for (const archive::OldTorchFile::Storage& storage : old_.storages) {
    extents.push_back({at, storage.data, "length of storage " + storage.key});
    at = storage.data;
    const std::uint64_t end = storage.data + storage.bytes;
    for (; value != values.end() && value->first < end; ++value) {
      if (value->first > at) extents.push_back({at, value->first, "unused storage " + storage.key});
      at = std::max(at, value->second);
    }
    if (at < end) extents.push_back({at, end, "unused storage " + storage.key});
    at = end;
  }
  if (at < file_.size()) extents.push_back({at, file_.size(), "unused"});
  return extents;
}

std::unique_ptr<Rewriter> OldTorchContainer::rewriter() const { return std::make_unique<NothingFollows>(); }

}  // namespace bitrift::ckpt
