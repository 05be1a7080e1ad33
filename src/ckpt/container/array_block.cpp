#include "ckpt/container/array_block.h"

#include <algorithm>

#include "ckpt/format/half_byte_values.h"
#include "ckpt/format/shifted_values.h"
#include "core/error.h"

namespace bitrift::ckpt {
namespace {

/// Some of its elements share bytes, as in a tensor of torch.expand().
bool repeats(const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& strides,
             std::uint64_t element_bytes) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (shape[i] > 1) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  std::uint64_t reach = element_bytes;  // the product of all earlier dimensions
  for (const std::size_t i : order) {
    if (strides[i] < reach) return true;
    reach += strides[i] * (shape[i] - 1);
  }
  return false;
}

bool is_dense(const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& strides,
              std::uint64_t element_bytes) {
  const auto dense = dense_strides(shape, element_bytes, false);
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (shape[i] > 1 && strides[i] != dense[i]) return false;
  }
  return true;
}

/// Rows without repetition: the steps alone reach every element.
void set_steps(TensorInfo& tensor, const std::vector<std::uint64_t>& strides) {
  tensor.row_bytes = 0;
  tensor.per_row = tensor.elements();
  for (std::size_t i = 0; i < strides.size(); ++i) tensor.steps.push_back({tensor.shape[i], strides[i]});
}

}  // namespace

std::vector<std::uint64_t> dense_strides(const std::vector<std::uint64_t>& shape, std::uint64_t element_bytes,
                                         bool first_fastest) {
  std::vector<std::uint64_t> strides(shape.size());
  std::uint64_t step = element_bytes;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const std::size_t i = first_fastest ? k : shape.size() - 1 - k;
    strides[i] = step;
    step *= std::max<std::uint64_t>(shape[i], 1);
  }
  return strides;
}

Block array_block(const std::string& path, const archive::ElementType& type,
                  const std::vector<std::uint64_t>& shape, const ArrayPlace& place,
                  const std::string& problem) {
  Block block{
      path, shape, std::make_unique<MemberValues>(place.member, place.first, place.end - place.first), {}};
  const bool halves = type.packed_bits == 4;
  if (halves) block.values = std::make_unique<HalfByteValues>(std::move(block.values));
  const Member& member = *place.member;
  TensorInfo whole;
  whole.path = path;
  whole.shape = shape;
  whole.dtype = type.name;
  whole.plain = halves || (type.plain && type.bytes > 0);
  if (type.big_endian && !type.unicode) whole.order = ByteOrder::big;
  whole.element_bytes = whole.row_bytes = type.bytes;
  whole.storage = member.deflated ? "deflated" : "stored";
  whole.stored_bytes = member.deflated ? member.stored_bytes : place.end - place.first;
  whole.refusal = member.problem.empty() ? problem : member.problem;
  const bool empty = whole.elements() == 0;
  const bool dense = empty || place.strides.empty() || is_dense(shape, place.strides, type.bytes);
  if (!dense) set_steps(whole, place.strides);
  if (whole.refusal.empty() && empty) whole.refusal = "it has no elements";
  if (whole.refusal.empty() && type.packed_bits != 0 && !halves) {
    whole.refusal = fmt::format("an element takes {} bits, less than a byte", type.packed_bits);
  }
  const bool repeated = !dense && repeats(shape, place.strides, type.bytes);
  if (repeated) {
    // There may be any number of elements, whatever the size of the file.
    whole.dtype += " (repeated)";
    whole.plain = false;
    if (whole.refusal.empty()) whole.refusal = "some of its elements are the same stored bytes";
  }
  const auto format = repeated ? std::nullopt : number_format(type.name);
  for (const unsigned part : {0U, 1U}) {
    if (part == 1 && !type.complex) break;
    TensorInfo tensor = whole;
    if (type.complex) {
      tensor.path += part == 0 ? ":real" : ":imag";
      tensor.holder = path;
      tensor.element_bytes /= 2;
      tensor.first_byte = part * tensor.element_bytes;
    } else if (dense && type.plain && !member.deflated && !empty && member.problem.empty()) {
      tensor.offset = member.data + place.first;
    }
    tensor.format = format;
    if (format) tensor.format->order = whole.order;
    if (!format) tensor.refuse_type();
    block.tensors.push_back(std::move(tensor));
  }
  return block;
}

namespace {

void move_tensor(TensorInfo& tensor, std::uint64_t base, const std::string& prefix, const std::string& file) {
  tensor.path = prefix + tensor.path;
  if (!tensor.alias_of.empty()) tensor.alias_of = prefix + tensor.alias_of;
  if (!tensor.holder.empty()) tensor.holder = prefix + tensor.holder;
  if (tensor.offset) *tensor.offset += base;
  if (tensor.shared_end > 0) {
    tensor.shared_first += base;
    tensor.shared_end += base;
  }
  tensor.file = file;
}

}  // namespace

void place_block(Block& block, std::uint64_t base, const std::string& prefix, const std::string& file) {
  block.path = prefix + block.path;
  const std::string problem = block.values->unalterable();
  for (TensorInfo& tensor : block.tensors) {
    move_tensor(tensor, base, prefix, file);
    if (problem.empty() || (!tensor.refusal.empty() && !tensor.refused_by_type)) continue;
    tensor.refusal = problem;
    tensor.refused_by_type = false;
  }
}

void move_block(Block& block, std::uint64_t base, const std::string& prefix, const std::string& file) {
  block.values = std::make_unique<ShiftedValues>(std::move(block.values), base);
  place_block(block, base, prefix, file);
}

}  // namespace bitrift::ckpt
