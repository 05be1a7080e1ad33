// The tensors that a dataset or attribute holds: itself, or the members of its elements.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ckpt/format/tensor_info.h"
#include "h5map/message/datatype.h"

namespace bitrift::ckpt {

/// How many bytes may be kept of what many names share, in a file of this size: the members of one datatype,
/// the text of one attribute. No byte of the file belongs to a single copy.
[[nodiscard]] std::uint64_t room_beside(std::uint64_t file_bytes) noexcept;

/// What a datatype comes to over elements of `shape`. A number, text or any other type that is not taken
/// apart: one tensor of this path. An array: what its elements come to, the array's dimensions behind those
/// of the shape. A compound: one for each member, "<path>:<member>", members of members with a dot between. A
/// complex number, as h5py stores it (a compound of r and i) or as HDF5 2.0: "<path>:real" and
/// "<path>:imag". Types nested more than 32 deep, of more than 4096 members, or whose members would take
/// more than `room` bytes of memory stay whole; what members take, also in vain, is subtracted from it. Sets
/// path, holder, format, dtype, plain, shape and the place in the bytes; the rest is the caller's.
[[nodiscard]] std::vector<TensorInfo> units_of(const h5map::Datatype& type, const std::string& path,
                                               const std::vector<std::uint64_t>& shape, std::uint64_t& room);

/// A member's name may be spelled like another dataset's path, and a damaged file may give one name to many:
/// the first keeps it, the second gets a colon behind it, those after it a number too ("w:", "w:2", "w:3").
/// `taken` says what is a name already.
void make_unique(std::vector<TensorInfo>& tensors, const std::function<bool(const std::string&)>& taken);

}  // namespace bitrift::ckpt
