// Makes a new HDF5 file without letting HDF5 touch the disk.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "h5/new_dataset.h"

namespace bitrift::h5 {

/// A complete file without the elements of its datasets.
struct Blueprint {
  std::vector<std::uint8_t> head;      ///< the first bytes of the file: all of HDF5's own structures
  std::uint64_t file_bytes = 0;        ///< size of the whole file; bytes that are neither head nor dataset
                                       ///< are zero
  std::vector<std::uint64_t> offsets;  ///< the place of each dataset's elements, in the given order
};

/// Builds the structures in memory: contiguous datasets allocated in the order given, no time stamps,
/// `attributes` as variable-length UTF-8 strings on the root group. Equal arguments give equal bytes. HDF5
/// writes only to memory, so a full disk affects plain writes and never leaves HDF5 with data that it cannot
/// flush. Throws Error(bad_input) when HDF5 refuses a name, a shape or an attribute.
[[nodiscard]] Blueprint lay_out(const std::vector<NewDataset>& datasets,
                                const std::map<std::string, std::string>& attributes);

}  // namespace bitrift::h5
