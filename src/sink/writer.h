// Writing a checkpoint: begin with the full list, give the tensors in any order, commit.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/tensor.h"

namespace bitrift::ckpt {

/// Writes one HDF5 file under a temporary name; commit() makes it appear under its own, synced. Datasets are
/// contiguous, little-endian and allocated in path order by begin(), so the bytes of the file do not depend
/// on the order (or the rank) in which tensors arrive. Two files of equal metas, attributes and contents are
/// equal byte for byte.
class Writer {
 public:
  /// metas: every tensor of the file, any order, no double. attributes: strings on the root group.
  /// Throws Error(io | bad_input).
  Writer(std::filesystem::path target, std::vector<TensorMeta> metas,
         const std::map<std::string, std::string>& attributes);
  ~Writer();  ///< without commit() nothing is left
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) = delete;

  /// Stores all bytes of one tensor (little-endian, row-major) and its CRC-32C. Each exactly once.
  void tensor(std::string_view path, const void* data, std::size_t bytes);
  /// Checks that every tensor came, writes the checksums, syncs, renames, syncs the folder.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitrift::ckpt
