#include "ckpt/tensor.h"

#include "h5/create.h"

namespace bitrift::ckpt {

std::uint64_t TensorMeta::elements() const noexcept { return h5::element_count(shape); }

}  // namespace bitrift::ckpt
