// The image of a checkpoint in any format whose files have a fixed size.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ckpt/tensor.h"
#include "sink/format/write_format.h"
#include "sink/image.h"

namespace bitrift::ckpt {

/// Equal arguments give equal images, whatever the order of `metas`. attributes: texts of the file as a
/// whole; raw cannot hold them. Throws Error(bad_input) as checked_tensors() and check_holds() do, and for
/// names that the format cannot have; Error(internal) for a format that is_compressed().
[[nodiscard]] Image image_of(WriteFormat format, std::vector<TensorMeta> metas,
                             const std::map<std::string, std::string>& attributes);

}  // namespace bitrift::ckpt
