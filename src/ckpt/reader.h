// A checkpoint opened for reading.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/container/container.h"
#include "ckpt/dialect/layers.h"
#include "ckpt/format/tensor_info.h"
#include "ckpt/format/values.h"
#include "ckpt/tensor.h"

namespace bitrift::ckpt {

/// Any HDF5 file, safetensors file, npz file or zip file of torch.save, read-only and without their
/// libraries: any problem in it is a one-line error. A shared lock, as HDF5 takes it, keeps writers out while
/// the file is open. Several threads may read values at once; attributes are for one.
class Reader {
 public:
  /// Throws Error(not_found | bad_file | busy | unsupported | io): missing, of no known format, truncated,
  /// damaged, open for writing elsewhere, unreadable.
  explicit Reader(std::filesystem::path path);
  ~Reader();
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;

  [[nodiscard]] const std::filesystem::path& path() const noexcept;
  [[nodiscard]] FileFormat format() const noexcept;
  /// All datasets or arrays, or the members of their elements (ckpt/format/units.h), sorted by path
  /// (bytewise).
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const noexcept;
  /// Removes these tensors, and their aliases, from every later choice: nobody reads them.
  void leave_out(const std::vector<std::string>& paths);
  /// The program whose names these are: one of layout_names().
  [[nodiscard]] const std::string& layout() const noexcept;
  /// The layers that the tensors belong to, in order.
  [[nodiscard]] const LayerList& layers() const;
  /// The same of all attributes: "<object>@NAME", "@NAME" on the root group. Read at the first call.
  [[nodiscard]] const std::vector<TensorInfo>& attribute_tensors() const;
  /// A tensor or, when the name has an '@', an attribute; nullptr when nothing has that name.
  [[nodiscard]] const TensorInfo* find(std::string_view path) const;
  /// Reads all bytes of a tensor, row-major; numbers become little-endian, other plain types stay as stored.
  /// `bytes` must be elements() * element_bytes. Throws Error(bad_file), and Error(unsupported) for virtual
  /// storage, for missing filters and for types that are not plain.
  void read(const TensorInfo& tensor, void* out, std::size_t bytes) const;
  /// Reads `count` elements from flat index `first` on, little-endian. Costs O(count), with filters O(the
  /// chunks). Throws as read().
  void read_elements(const TensorInfo& tensor, std::uint64_t first, std::uint64_t count, void* out) const;
  /// Reads all bytes of a tensor that has an offset from `copy`, a copy of this file in which only values
  /// were altered: the same as read() of the copy, without HDF5. Throws Error(not_found | io | bad_file).
  void read_from_copy(const std::filesystem::path& copy, const TensorInfo& tensor, void* out,
                      std::size_t bytes) const;
  /// A text of the file as a whole, nullopt when absent: a string attribute of the root group, a text of a
  /// safetensors header, an array "@NAME" of an npz file, a text in the outermost dict of a pickle.
  [[nodiscard]] std::optional<std::string> attribute(const std::string& name) const;
  /// All of these.
  [[nodiscard]] const std::map<std::string, std::string>& attributes() const noexcept;
  /// The stored CRC-32C of a tensor and its place; nullopt when the file has none for it. Throws
  /// Error(bad_file) when the checksums of the file are damaged.
  struct StoredChecksum {
    std::uint32_t value = 0;
    std::uint64_t element = 0;  ///< its place in the tensor "checksum/crc32c"
  };
  [[nodiscard]] std::optional<StoredChecksum> checksum(std::string_view path) const;

  /// The text of an attribute tensor that is one string; nullopt for every other.
  [[nodiscard]] std::optional<std::string> text_of(const TensorInfo& attribute) const;
  /// The number of the dataset or attribute that a tensor of this file is or belongs to: datasets in path
  /// order, then attributes.
  [[nodiscard]] std::size_t block(const TensorInfo& tensor) const;
  /// Its bytes.
  [[nodiscard]] const Values& values(const TensorInfo& tensor) const;
  /// The file, or the files of a set; offsets of tensors are counted through all of them.
  [[nodiscard]] const FileList& files() const noexcept;
  /// The file as its format describes it.
  [[nodiscard]] Container& container() const noexcept;

 private:
  void read_members(const TensorInfo& tensor, std::uint64_t first, std::uint64_t count,
                    std::uint8_t* out) const;
  void read_steps(const TensorInfo& tensor, std::uint64_t first, std::uint64_t count,
                  std::uint8_t* out) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitrift::ckpt
