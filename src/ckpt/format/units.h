// The tensors that a dataset or attribute holds: itself, or the members of its elements.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ckpt/format/tensor_info.h"
#include "h5map/message/datatype.h"

namespace bitrift::ckpt {

/// How many bytes may be kept of data that many names share, in a file of this size: the members of one
/// datatype, the text of one attribute. Such a copy has no bytes of its own in the file.
[[nodiscard]] std::uint64_t room_beside(std::uint64_t file_bytes) noexcept;

/// The units that a datatype gives over elements of `shape`. A number, text or any other type that is not
/// split: one tensor of this path. An array: the units of its elements; the array's dimensions follow those
/// of the shape. A compound: one for each member, "<path>:<member>", members of members with a dot between. A
/// complex number, as h5py stores it (a compound of r and i) or as HDF5 2.0: "<path>:real" and "<path>:imag".
/// Types nested more than 32 deep, with more than 4096 members, or whose members would take more than `room`
/// bytes of memory are not split; the memory of members, even in vain, is subtracted from it. Sets path,
/// holder, format, dtype, plain, shape and the place in the bytes; the caller sets the rest.
[[nodiscard]] std::vector<TensorInfo> units_of(const h5map::Datatype& type, const std::string& path,
                                               const std::vector<std::uint64_t>& shape, std::uint64_t& room);

/// A member's name may be spelled like another dataset's path, and a damaged file may give one name to many:
/// the first keeps it, the second gets a colon after it, and later ones a number too ("w:", "w:2", "w:3").
/// `taken` says which names are in use.
void make_unique(std::vector<TensorInfo>& tensors, const std::function<bool(const std::string&)>& taken);

}  // namespace bitrift::ckpt
