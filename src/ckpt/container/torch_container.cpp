#include "ckpt/container/torch_container.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/ranges.h>

#include "ckpt/container/array_block.h"
#include "core/error.h"

namespace bitrift::ckpt {
namespace {

constexpr std::string_view pickle_name = "/data.pkl";
constexpr std::uint64_t most_data_pickle = std::uint64_t{64} << 20U;

/// Which elements a tensor has; equal texts mean equal elements.
std::string view_of(const archive::TorchTensor& tensor) {
  return fmt::format("{} {} {} {} {}", tensor.storage, tensor.type.name, tensor.first,
                     fmt::join(tensor.shape, ","), fmt::join(tensor.strides, ","));
}

void mark_aliases(const std::vector<archive::TorchTensor>& tensors, std::vector<Block>& blocks) {
  std::map<std::string, std::size_t> users;  // of each storage
  for (const archive::TorchTensor& tensor : tensors) ++users[tensor.storage];
  std::map<std::string, std::size_t> first;  // of each view
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const archive::TorchTensor& tensor = tensors[i];
    if (users[tensor.storage] == 1 || tensor.first == tensor.end) continue;
    const auto [known, added] = first.try_emplace(view_of(tensor), i);
    for (std::size_t part = 0; part < blocks[i].tensors.size(); ++part) {
      TensorInfo& one = blocks[i].tensors[part];
      if (!added) one.alias_of = blocks[known->second].tensors[part].path;
      const auto runs = blocks[i].values->stored_runs();
      if (runs.empty()) continue;
      one.shared_first = runs.front().offset;
      one.shared_end = runs.front().offset + runs.front().bytes;
    }
  }
}

/// The lazy views of a tensor change the sign of the stored values.
void mark_negated(const archive::TorchTensor& tensor, std::vector<TensorInfo>& parts) {
  for (TensorInfo& part : parts) {
    const bool imaginary = tensor.type.complex && &part != &parts.front();
    part.negated = tensor.negated != (imaginary && tensor.conjugated);
    if (!part.negated || (part.format && part.format->kind == NumberKind::floating)) continue;
    // The sign is a single bit only in floating-point numbers.
    part.negated = part.plain = part.refused_by_type = false;
    part.format.reset();
    part.dtype += " (negated)";
    if (part.refusal.empty())
      part.refusal = "its numbers are stored negated, and are not floating-point numbers";
  }
}

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
  if (member.bytes > most_data_pickle) {
    fail(ErrorCode::unsupported, "{}: has {} bytes; at most {} are read", where, member.bytes,
         most_data_pickle);
  }
  const auto pickle = beginning(member, member.bytes);
  if (pickle.size() != member.bytes) fail(ErrorCode::bad_file, "{}: ends too early", where);
  return archive::contents_of_pickle(pickle, where);
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
  Block block = array_block(tensor.path, tensor.type, tensor.shape,
                            {member_of(*member), tensor.first, tensor.end, tensor.strides},
                            member->deflated ? "its storage is compressed, as torch.save never does" : "");
  mark_negated(tensor, block.tensors);
  return block;
}

std::vector<Block> TorchContainer::blocks() {
  root_ = root_of(directory());
  archive::TorchContents contents = read_pickle();
  for (auto& [name, text] : contents.texts) keep_text(name, std::move(text));
  std::vector<archive::TorchTensor>& tensors = contents.tensors;
  const bool big_endian = is_big_endian();
  for (const archive::TorchTensor& tensor : tensors) order_.push_back(tensor.path);
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return a.path < b.path; });
  std::vector<Block> blocks;
  for (archive::TorchTensor& tensor : tensors) {
    tensor.type.big_endian = big_endian;
    blocks.push_back(describe_tensor(tensor));
  }
  mark_aliases(tensors, blocks);
  return blocks;
}

}  // namespace bitrift::ckpt
