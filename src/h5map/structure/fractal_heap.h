// Fractal heaps: links and attributes of large groups and objects, and shared messages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "h5map/structure/seal.h"
#include "h5map/structure/source.h"
#include "h5map/structure/storage_layout.h"

namespace bitrift::h5map {

/// An object of a fractal heap.
struct HeapObject {
  std::vector<std::uint8_t> bytes;
  std::uint64_t offset = 0;  ///< of bytes[0] in the file, user block included; `undefined` when the object
                             ///< is stored in its own id
  std::optional<Seal> seal;  ///< what covers them
};

/// A fractal heap (HDF5 file format 3.0, section III.G). Blocks that were read stay in memory. All members
/// throw Error(bad_file) that names file and byte. The source must outlive it.
class FractalHeap {
 public:
  /// Reads the header at `offset` in the file, user block included. Throws Error(unsupported) for heaps
  /// with filters, which no known program makes.
  FractalHeap(const Source& source, const Frame& frame, std::uint64_t offset);

  [[nodiscard]] unsigned id_bytes() const noexcept { return id_bytes_; }
  /// The object that an id denotes: managed, huge or tiny.
  [[nodiscard]] HeapObject object(std::span<const std::uint8_t> id);

 private:
  // The address and size of a direct block.
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t first = 0;  // its beginning in the heap's address space
  };

  void read_table(Cursor& cursor);
  [[nodiscard]] HeapObject managed(Cursor& id);
  [[nodiscard]] HeapObject huge(Cursor& id);
  [[nodiscard]] HeapObject tiny(std::span<const std::uint8_t> id) const;
  [[nodiscard]] Place find(std::uint64_t position);
  const std::vector<std::uint8_t>& indirect(std::uint64_t offset, std::uint64_t rows, std::uint64_t first);
  const std::vector<std::uint8_t>& direct(const Place& at);
  void check_head(std::span<const std::uint8_t> bytes, std::uint64_t offset, std::uint64_t first,
                  std::string_view signature, std::string_view what) const;

  const Source* source_;
  Frame frame_;
  std::uint64_t offset_ = 0;
  unsigned id_bytes_ = 0;
  unsigned position_bytes_ = 0, size_bytes_ = 0;  // widths inside of a managed id
  bool direct_sums_ = false;
  std::uint64_t huge_tree_ = undefined;
  std::uint64_t width_ = 0, start_bytes_ = 0, direct_bytes_ = 0;
  std::uint64_t root_ = undefined, root_rows_ = 0;
  std::map<std::uint64_t, std::vector<std::uint8_t>> blocks_;
};

}  // namespace bitrift::h5map
