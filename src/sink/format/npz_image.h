// Lays a checkpoint out as an npz file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/tensor.h"
#include "sink/format/zip_image.h"
#include "sink/image.h"

namespace bitrift::ckpt {

/// A .npy array's header (numpy.lib.format, version 1.0), padded to a multiple of 64 bytes. code:
/// numpy.dtype.str.
[[nodiscard]] std::vector<std::uint8_t> npy_header(std::string_view code,
                                                   const std::vector<std::uint64_t>& shape);
/// The name of a tensor's member.
[[nodiscard]] std::string npz_member(const std::string& path);
/// The attributes as members "@NAME.npy": 0-dimensional Unicode arrays. Throws Error(bad_input) for texts
/// that are not valid UTF-8.
void add_npz_attributes(ZipImage& zip, const std::map<std::string, std::string>& attributes);

/// The attributes, then a member for each tensor in path order. metas: sorted, and of types that NumPy has.
/// Throws Error(bad_input) for names that an archive cannot have.
[[nodiscard]] Image npz_image(const std::vector<TensorMeta>& metas,
                              const std::map<std::string, std::string>& attributes);

}  // namespace bitrift::ckpt
