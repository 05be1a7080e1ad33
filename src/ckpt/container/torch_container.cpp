#include "ckpt/container/torch_container.h"

#include <utility>

#include "archive/pickle/pickle.h"
#include "ckpt/container/array_block.h"
#include "ckpt/container/torch_blocks.h"
#include "core/error.h"

namespace bitrift::ckpt {
namespace {

constexpr std::string_view pickle_name = "/data.pkl";

}  // namespace

std::string TorchContainer::root_of(const archive::ZipDirectory& directory) {
  for (const archive::ZipMember& member : directory.members()) {
    const std::size_t cut = member.name.find('/');
    if (cut != std::string::npos && cut > 0 && member.name.substr(cut) == pickle_name) {
      return member.name.substr(0, cut);
    }
  }
  return "";
}

archive::TorchContents TorchContainer::read_pickle() const {
  const archive::ZipMember& member = *directory().find(root_ + std::string(pickle_name));
  const std::string where = file().name() + ": " + archive::printable(member.name);
  if (member.bytes > archive::most_pickle_bytes) {
    fail(ErrorCode::unsupported, "{}: has {} bytes; at most {} are read", where, member.bytes,
         archive::most_pickle_bytes);
  }
  const auto pickle = beginning(member, member.bytes);
  if (pickle.size() != member.bytes) fail(ErrorCode::bad_file, "{}: ends too early", where);
  return archive::contents_of_pickle(archive::Pickle(pickle, where), where);
}

bool TorchContainer::is_big_endian() const {
  const archive::ZipMember* const member = directory().find(root_ + "/byteorder");
  if (member == nullptr) return false;  // written before that member existed, on little-endian machines
  const auto text = beginning(*member, 16);
  const std::string order(text.begin(), text.end());
  if (order != "little" && order != "big") {
    fail(ErrorCode::bad_file, "{}: {}: names neither little nor big", file().name(),
         archive::printable(member->name));
  }
  return order == "big";
}

Block TorchContainer::describe_tensor(const archive::TorchTensor& tensor) {
  const std::string name = root_ + "/data/" + tensor.storage;
  const archive::ZipMember* const member = directory().find(name);
  if (member == nullptr) {
    fail(ErrorCode::bad_file, "{}: tensor {} has its values in {}, which the archive does not hold",
         file().name(), archive::printable(tensor.path), archive::printable(name));
  }
  if (member->bytes != tensor.storage_bytes) {
    fail(ErrorCode::bad_file, "{}: {} has {} bytes, but the storage of tensor {} should have {}",
         file().name(), archive::printable(name), member->bytes, archive::printable(tensor.path),
         tensor.storage_bytes);
  }
  name_rest(*member, "unused storage " + member->name);
  const bool empty = tensor.first == tensor.end;
  if (member->deflated) {
    note_values(member->data, member->data + member->stored_bytes);
  } else if (!empty && member->problem.empty()) {
    note_values(member->data + tensor.first, member->data + tensor.end);
  }
  return array_block(tensor.path, tensor.type, tensor.shape,
                     {member_of(*member), tensor.first, tensor.end, tensor.strides},
                     member->deflated ? "its storage is compressed, as torch.save never does" : "");
}

std::vector<Block> TorchContainer::blocks() {
  root_ = root_of(directory());
  archive::TorchContents contents = read_pickle();
  for (auto& [name, text] : contents.texts) keep_text(name, std::move(text));
  const bool big_endian = is_big_endian();
  for (archive::TorchTensor& tensor : contents.tensors) {
    order_.push_back(tensor.path);
    tensor.type.big_endian = big_endian;
  }
  return torch_blocks(std::move(contents.tensors),
                      [this](const archive::TorchTensor& tensor) { return describe_tensor(tensor); });
}

}  // namespace bitrift::ckpt
