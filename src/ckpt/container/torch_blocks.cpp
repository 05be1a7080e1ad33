#include "ckpt/container/torch_blocks.h"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/ranges.h>

namespace bitrift::ckpt {
namespace {

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

std::vector<Block> torch_blocks(std::vector<archive::TorchTensor> tensors,
                                const std::function<Block(const archive::TorchTensor&)>& describe) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return a.path < b.path; });
  std::vector<Block> blocks;
  for (const archive::TorchTensor& tensor : tensors) {
    blocks.push_back(describe(tensor));
    mark_negated(tensor, blocks.back().tensors);
  }
  mark_aliases(tensors, blocks);
  return blocks;
}

}  // namespace bitrift::ckpt
