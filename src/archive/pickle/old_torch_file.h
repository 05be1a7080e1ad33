// The layout of torch.save before PyTorch 1.6, which wrote no zip archive: five pickles (a magic number, a
// version, facts of the machine, the object, the keys of its storages), then the length and the bytes of each
// storage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "archive/bounded_file.h"
#include "archive/pickle/torch_pickle.h"

namespace bitrift::archive {

struct OldTorchFile {
  struct Storage {
    std::string key;
    std::uint64_t data = 0;  ///< of its first byte in the file; 8 bytes before it hold its length in elements
    std::uint64_t bytes = 0;
  };
  TorchContents contents;
  std::vector<Storage> storages;  ///< in the order of the file
  std::uint64_t pickles = 0;      ///< bytes of the five pickles
};

/// Values are little-endian on every machine that wrote them. Nothing is executed. Throws Error(bad_file) for
/// damage, Error(unsupported) for pickles of more than 64 MiB and for storages whose type is not known.
[[nodiscard]] OldTorchFile read_old_torch_file(const BoundedFile& file);

}  // namespace bitrift::archive
