// A new HDF5 file of compressed datasets.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "h5/new_dataset.h"

namespace bitrift::h5 {

/// Compresses datasets in memory with HDF5's own filters: chunks of at most 1 MiB, whole rows where they fit,
/// shuffled and deflated at level 4. Datasets of less than 4 KiB are contiguous: their index would be larger
/// than the saving. No time stamps: equal calls give equal bytes. Any thread; its calls wait for others that
/// are inside HDF5. Throws Error(bad_input) for what HDF5 refuses, Error(unsupported) if HDF5 was built
/// without deflate.
class CompressedFile {
 public:
  /// attributes: as in lay_out().
  explicit CompressedFile(const std::map<std::string, std::string>& attributes);
  ~CompressedFile();
  CompressedFile(CompressedFile&&) = delete;
  CompressedFile& operator=(CompressedFile&&) = delete;

  /// Little-endian, row-major, with dataset.bytes() bytes.
  void add(const NewDataset& dataset, const void* data);
  /// The whole file, valid as long as this object. Once, last.
  [[nodiscard]] std::span<const std::uint8_t> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitrift::h5
