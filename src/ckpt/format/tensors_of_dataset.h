// Datasets and attributes of a file as tensors, before roles are given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ckpt/format/tensor_info.h"
#include "h5map/message/datatype.h"
#include "h5map/structure/storage_layout.h"

namespace bitrift::ckpt {

/// TensorInfo::storage of a dataset.
[[nodiscard]] std::string storage_name(const h5map::Layout& layout);

/// Tensors of one dataset or attribute, without their roles. `problem`: why no byte of it can be altered. No
/// type: it could not be read. `room`: see units_of().
[[nodiscard]] std::vector<TensorInfo> describe(const h5map::DatatypePtr& type, const std::string& path,
                                               const std::vector<std::uint64_t>& shape,
                                               const std::string& problem, std::uint64_t& room);

}  // namespace bitrift::ckpt
