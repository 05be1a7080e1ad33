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

#include "ckpt/layers.h"
#include "ckpt/tensor.h"

namespace bitrift::ckpt {

/// One dataset of a file, alterable or not.
struct TensorInfo {
  std::string path;
  std::string role;
  std::string layer;                   ///< the module that it belongs to; "" when it belongs to none
  std::optional<NumberFormat> format;  ///< absent: not a number format that bitrift alters
  std::string dtype;                   ///< printable type, also for those: "float32", "string", "compound"
  std::uint64_t element_bytes = 0;     ///< stored size of one element
  bool plain = false;                  ///< its bytes are its value: no variable-length part, no reference
  std::vector<std::uint64_t> shape;
  std::string storage;  ///< contiguous | compact | chunked | virtual | external, "+filters" when filtered
  std::uint64_t stored_bytes = 0;
  /// Of the first byte in the file, when contiguous, allocated and in range.
  std::optional<std::uint64_t> offset;
  std::string refusal;  ///< why it cannot be altered; "" when it can
  /// The refusal is for want of a number format only: read as one of the same width, it can be altered.
  bool refused_by_type = false;
  std::string holder;  ///< of a compound member, an array element or a part of a complex number: the path of
                       ///< the dataset or attribute that it belongs to; "" for all others
  bool attribute = false;  ///< an attribute ("<object>@NAME"), or a part of one
  [[nodiscard]] std::uint64_t elements() const noexcept;
};

/// Any HDF5 file, read-only. Handles of HDF5 stay inside.
class Reader {
 public:
  /// Throws Error(not_found | bad_file | busy | io): missing, not HDF5, truncated, unreadable.
  explicit Reader(std::filesystem::path path);
  ~Reader();
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;

  [[nodiscard]] const std::filesystem::path& path() const noexcept;
  /// All datasets, sorted by path (bytewise).
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const noexcept;
  /// Which program's names these are: one of layout_names().
  [[nodiscard]] const std::string& layout() const noexcept;
  /// The layers that the tensors belong to, in order.
  [[nodiscard]] const LayerList& layers() const;
  /// nullptr when there is none of that name.
  [[nodiscard]] const TensorInfo* find(std::string_view path) const noexcept;
  /// Reads all bytes of a tensor, row-major; numbers become little-endian, other plain types stay as stored.
  /// `bytes` must be elements() * element_bytes. Throws Error(bad_file), and Error(unsupported) for virtual
  /// and external storage and for types that are not plain.
  void read(const TensorInfo& tensor, void* out, std::size_t bytes) const;
  /// Reads `count` elements from flat index `first` on, little-endian, of a tensor that has an offset. Costs
  /// O(count).
  void read_elements(const TensorInfo& tensor, std::uint64_t first, std::uint64_t count, void* out) const;
  /// Reads all bytes of a tensor that has an offset from `copy`, a copy of this file in which only values
  /// were altered: what read() would give there, without asking HDF5. Throws Error(not_found | io |
  /// bad_file).
  void read_from_copy(const std::filesystem::path& copy, const TensorInfo& tensor, void* out,
                      std::size_t bytes) const;
  /// A string attribute of the root group; nullopt when absent.
  [[nodiscard]] std::optional<std::string> attribute(const std::string& name) const;
  /// All string attributes of the root group.
  [[nodiscard]] const std::map<std::string, std::string>& attributes() const noexcept;
  /// The stored CRC-32C of a tensor and where in the file it stands; nullopt when the file carries none for
  /// it. Throws Error(bad_file) when the checksums of the file are damaged.
  struct StoredChecksum {
    std::uint32_t value = 0;
    std::uint64_t offset = 0;  ///< of its four little-endian bytes
  };
  [[nodiscard]] std::optional<StoredChecksum> checksum(std::string_view path) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitrift::ckpt
