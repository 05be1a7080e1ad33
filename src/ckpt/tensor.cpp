#include "ckpt/tensor.h"

#include "core/number/shape.h"

namespace bitrift::ckpt {

std::uint64_t TensorMeta::elements() const noexcept { return element_count(shape); }

}  // namespace bitrift::ckpt
