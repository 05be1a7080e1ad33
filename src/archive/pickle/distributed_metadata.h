// The metadata of torch.distributed.checkpoint: which tensors a folder holds, and in which files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace bitrift::archive {

/// A part of a tensor, as one rank wrote it: a zip archive of torch.save with one tensor, inside of a file.
struct TensorPiece {
  std::vector<std::uint64_t> first;  ///< index of its first element in the tensor
  std::vector<std::uint64_t> shape;
  std::string file;                     ///< relative to the folder
  std::uint64_t offset = 0, bytes = 0;  ///< of the archive in the file
  bool transformed = false;             ///< an extension has compressed or encrypted the archive
};

struct DistributedTensor {
  std::string path;  ///< keys on the way to it in the state_dict, joined by '/'
  std::vector<std::uint64_t> shape;
  std::vector<TensorPiece> pieces;  ///< no two begin at the same index
};

struct DistributedContents {
  std::vector<DistributedTensor> tensors;  ///< in the order of the metadata
  std::vector<TensorPiece> objects;        ///< archives of other objects; without index and shape
};

/// The contents of a file ".metadata" (torch.distributed.checkpoint.metadata.Metadata). Nothing in the pickle
/// is executed. `where` names the file in messages. Throws Error(bad_file) for damage, for pieces that do not
/// fill their tensor, and for files outside of the folder; Error(unsupported) for a pickle that is none of
/// Metadata.
[[nodiscard]] DistributedContents distributed_contents(std::span<const std::uint8_t> pickle,
                                                       const std::string& where);

}  // namespace bitrift::archive
