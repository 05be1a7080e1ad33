// Making a new HDF5 file without letting HDF5 touch the disk.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "h5/new_dataset.h"

namespace bitrift::h5 {

/// A complete file except the elements of its datasets.
struct Blueprint {
  std::vector<std::uint8_t> head;      ///< the first bytes of the file: all of HDF5's own structures
  std::uint64_t file_bytes = 0;        ///< size of the whole file; what is neither head nor dataset is zero
  std::vector<std::uint64_t> offsets;  ///< where the elements of each dataset go, in the order given
};

/// Builds the structures in memory: contiguous datasets allocated in the order given, no time stamps,
/// `attributes` as variable-length UTF-8 strings on the root group. Equal arguments give equal bytes. Since
/// HDF5 writes to memory only, a full disk meets plain writes and never leaves HDF5 with data that it cannot
/// flush. Throws Error(bad_input) when HDF5 refuses a name, a shape or an attribute.
[[nodiscard]] Blueprint lay_out(const std::vector<NewDataset>& datasets,
                                const std::map<std::string, std::string>& attributes);

}  // namespace bitrift::h5
