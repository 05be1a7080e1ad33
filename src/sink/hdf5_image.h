// Lays a checkpoint out as an HDF5 file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ckpt/tensor.h"
#include "sink/image.h"

namespace bitrift::ckpt {

/// The image of a checkpoint (docs/checkpoint-format.md): the structures of HDF5 first, then the tensors in
/// path order. Equal arguments give equal images, whatever the order of `metas`. HDF5 works in memory only.
/// attributes: strings on the root group.
/// Throws Error(bad_input): no tensor, one given twice, a path that is impossible or also a group, a format
/// that is not little-endian or that HDF5 cannot describe (float8_e4m3fn).
[[nodiscard]] Image hdf5_image(std::vector<TensorMeta> metas,
                               const std::map<std::string, std::string>& attributes);

}  // namespace bitrift::ckpt
