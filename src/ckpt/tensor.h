// A tensor as a checkpoint knows it: a name, a number format, a shape, bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/number/number_format.h"

namespace bitrift::ckpt {

/// Name, format and shape; bytes are row-major.
struct TensorMeta {
  std::string path;  ///< "model/conv1.weight": no leading '/'
  NumberFormat format;
  std::vector<std::uint64_t> shape;  ///< empty: a scalar

  [[nodiscard]] std::uint64_t elements() const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept { return elements() * format.bytes; }
  bool operator==(const TensorMeta&) const = default;
};

}  // namespace bitrift::ckpt
