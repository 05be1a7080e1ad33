// The tensors that a pickle of torch.save names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "archive/element_type.h"
#include "archive/pickle/pickle.h"

namespace bitrift::archive {

/// A tensor over a storage, which other tensors may share.
struct TorchTensor {
  std::string path;     ///< keys and indexes on the way to it, joined by '/'; "tensor" if the pickle holds
                        ///< nothing else
  std::string storage;  ///< its key: the member "data/<key>" of the archive holds it
  std::uint64_t storage_bytes = 0;
  ElementType type;
  std::uint64_t first = 0;  ///< byte of the storage where element 0 begins
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> strides;  ///< bytes from one element to the next, for each dimension
  std::uint64_t end = 0;  ///< the end of the last byte of the storage that belongs to it; `first` when it is
                          ///< empty
  bool negated = false;   ///< a lazy view (torch.Tensor.is_neg): its values are those stored, times -1
  bool conjugated = false;  ///< a lazy view (torch.Tensor.is_conj): likewise their imaginary parts
};

/// The contents of a pickle of torch.save.
struct TorchContents {
  std::vector<TorchTensor> tensors;
  std::map<std::string, std::string> texts;  ///< of the outermost dict, by their keys
};

/// A storage as a pickle describes it.
struct TorchStorage {
  std::uint64_t bytes = 0;
  std::uint64_t element_bytes = 1;
};

/// The tensors in the order of the pickle; one that is named twice comes twice. Python objects other than
/// ordered dicts, parameters and tensors are not interpreted: nothing is called, and tensors in their
/// elements, arguments and attributes are found like those of a dict. `where` names file and pickle in
/// messages. Throws Error(bad_file) for damage and for tensors outside of their storage.
[[nodiscard]] TorchContents contents_of_pickle(const Pickle& pickle, const std::string& where);

/// All storages that a pickle names, by their keys, also those of objects that hold no tensors. Throws
/// Error(bad_file) if one is described twice, and not equally.
[[nodiscard]] std::map<std::string, TorchStorage> storages_of_pickle(const Pickle& pickle,
                                                                     const std::string& where);

}  // namespace bitrift::archive
