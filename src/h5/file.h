// An HDF5 file opened for reading: its datasets, where their bytes lie, and the bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "h5/handle.h"
#include "h5/number_type.h"

namespace bitrift::h5 {

enum class Layout { contiguous, compact, chunked, virtual_source, external, unknown };

/// One dataset, as far as it could be understood.
struct DatasetInfo {
  std::string path;  ///< without leading '/'
  TypeInfo type;
  std::vector<std::uint64_t> shape;  ///< empty: a scalar; {0} for a null dataspace
  Layout layout = Layout::unknown;
  bool filtered = false;
  std::uint64_t stored_bytes = 0;  ///< allocated in the file; 0 when nothing is
  std::optional<std::uint64_t>
      offset;           ///< of the first byte in the file: contiguous, allocated, inside of the file
  std::string problem;  ///< what HDF5 could not read or what contradicts the file's size; "" when sound
};

/// Product of the dimensions; 2^64 - 1 when it does not fit.
[[nodiscard]] std::uint64_t element_count(const std::vector<std::uint64_t>& shape) noexcept;

/// A file opened read-only. HDF5 holds a shared lock on it meanwhile; children do not inherit it.
class File {
 public:
  /// Throws Error(not_found) when missing, Error(busy) when another program writes it, Error(bad_file) when
  /// it is a directory, no HDF5 file or truncated, Error(io) when it cannot be read. Messages name the path.
  explicit File(const std::filesystem::path& path);

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// Every dataset that hard links reach, once, under the first of its names, sorted by path (bytewise). Soft
  /// links add nothing, external links are not followed. Groups may link to each other in circles; throws
  /// Error(bad_file) when they are nested more than 256 deep.
  [[nodiscard]] std::vector<DatasetInfo> datasets() const;
  /// Reads a whole dataset as stored (no conversion of numbers, filters undone) into `bytes` bytes, which
  /// must be its full size. For virtual and external storage throws Error(unsupported): their bytes are in
  /// other files.
  void read(const DatasetInfo& dataset, void* out, std::size_t bytes) const;
  /// The string attributes of the root group (scalar, fixed or variable length). Others are left out.
  [[nodiscard]] std::map<std::string, std::string> attributes() const;
  /// A text attribute of a group ("" is the root group): one string, or a list of one dimension, of fixed or
  /// variable length. Empty when the group or the attribute is absent, is no such text, or
  /// claims more bytes than the file has.
  [[nodiscard]] std::vector<std::string> texts(const std::string& group, const std::string& attribute) const;

 private:
  [[nodiscard]] DatasetInfo describe(const std::string& path) const;

  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  Handle id_;
};

}  // namespace bitrift::h5
