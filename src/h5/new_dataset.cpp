#include "h5/new_dataset.h"

#include "core/number/shape.h"

namespace bitrift::h5 {

std::uint64_t NewDataset::bytes() const noexcept {
  return element_count(shape) * (format ? format->bytes : string_bytes);
}

}  // namespace bitrift::h5
