// An array of an archive as a block of tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "archive/element_type.h"
#include "ckpt/container/container.h"
#include "ckpt/format/member_values.h"

namespace bitrift::ckpt {

/// The position of an array's elements in the decoded bytes of its member.
struct ArrayPlace {
  std::shared_ptr<const Member> member;
  std::uint64_t first = 0;  ///< of element 0
  std::uint64_t end = 0;    ///< the end of the last byte of any element
  /// Bytes from one element to the next, for each dimension; empty: row-major without gaps.
  std::vector<std::uint64_t> strides = {};
};

/// One tensor, or for a complex number its parts, "<path>:real" and "<path>:imag". `problem`: why no element
/// can be altered.
[[nodiscard]] Block array_block(const std::string& path, const archive::ElementType& type,
                                const std::vector<std::uint64_t>& shape, const ArrayPlace& place,
                                const std::string& problem = "");

/// Bytes from one element to the next when the last dimension is the fastest, or the first.
[[nodiscard]] std::vector<std::uint64_t> dense_strides(const std::vector<std::uint64_t>& shape,
                                                       std::uint64_t element_bytes, bool first_fastest);

/// As move_block(), for a block whose values already read the whole. Tensors whose values cannot be altered
/// are refused.
void place_block(Block& block, std::uint64_t base, const std::string& prefix, const std::string& file);

/// Takes a block of one file as one of a whole, in which the file begins at byte `base`. prefix: of its
/// paths; file: its file, if the whole has several. Its chunks are read then, and not altered.
void move_block(Block& block, std::uint64_t base, const std::string& prefix, const std::string& file);

}  // namespace bitrift::ckpt
