// The shape of a dataset or attribute.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "h5map/structure/source.h"
#include "h5map/structure/storage_layout.h"

namespace bitrift::h5map {

/// A dataspace (HDF5 file format 3.0, section IV.A.2.b).
struct Dataspace {
  enum class Kind { scalar, simple, null };
  Kind kind = Kind::scalar;
  std::vector<std::uint64_t> shape;      ///< empty: a scalar; {0} for a null dataspace
  std::vector<std::uint64_t> max_shape;  ///< as many; `undefined`: without limit

  /// Product of the dimensions.
  [[nodiscard]] std::uint64_t element_count() const noexcept;
};

/// Reads one dataspace from the cursor. Throws Error(bad_file) when it has more than 32 dimensions, when the
/// number of elements does not fit 64 bits, or when a dimension is larger than its own maximum;
/// Error(unsupported) for versions above 2. `name` (of the file) is for messages.
[[nodiscard]] Dataspace parse_dataspace(Cursor& cursor, const Frame& frame, const std::string& name);

}  // namespace bitrift::h5map
