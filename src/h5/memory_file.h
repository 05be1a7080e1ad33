// A new HDF5 file that HDF5 writes to memory only.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "core/error.h"
#include "h5/handle.h"
#include "h5/library.h"
#include "h5/new_dataset.h"

namespace bitrift::h5 {

/// The memory of HDF5's `core` driver. HDF5 gives it away when the file is closed, when all structures are in
/// it.
struct MemoryImage {
  struct Free {
    void operator()(std::uint8_t* memory) const noexcept { std::free(memory); }
  };
  std::size_t size = 0;
  std::unique_ptr<std::uint8_t, Free> last;
};

/// Lives within one Scope, as all calls do. No time stamps. Throws Error(bad_input) for what HDF5 refuses.
class MemoryFile {
 public:
  /// room: bytes of each piece of the file that holds structures; if one piece holds them all, they come
  /// before the elements. step: by which the memory grows.
  MemoryFile(std::size_t room, std::size_t step);

  [[nodiscard]] std::int64_t id() const noexcept { return file_.get(); }
  /// A variable-length UTF-8 string on the root group.
  void add_attribute(const std::string& name, const std::string& text);
  /// The groups on the way to a path.
  void add_groups_of(const std::string& path);
  /// Makes the missing groups. creation: HDF5's property list for it.
  [[nodiscard]] Handle add_dataset(const NewDataset& dataset, const Handle& creation);

  struct Bytes {
    std::uint64_t file_bytes = 0;  ///< size of the whole file
    std::span<const std::uint8_t>
        there;  ///< its first bytes, as far as HDF5 wrote them; valid with the object
  };
  /// Closes the file. Once, last.
  [[nodiscard]] Bytes close();

 private:
  MemoryImage image_;
  Handle file_;
  std::set<std::string> groups_;
};

namespace detail {

inline Handle made(std::int64_t id, const std::string& where) { return own(id, where, ErrorCode::bad_input); }
inline void done(std::int64_t result, const std::string& where) {
  check(result, where, ErrorCode::bad_input);
}

}  // namespace detail

}  // namespace bitrift::h5
