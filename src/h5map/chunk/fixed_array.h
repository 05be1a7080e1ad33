// An index of chunks that is an array of fixed length.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "h5map/chunk/entry_code.h"

namespace bitrift::h5map {

/// A fixed array (HDF5 file format 3.0, "Appendix C: The Fixed Array Index"; H5FA*.c): all entries in one
/// data block, or in checksummed pages of it, with a bitmap of the written pages. Throws Error(bad_file).
class FixedArray {
 public:
  FixedArray(const Source& source, const Frame& frame, std::uint64_t offset, bool filtered);

  [[nodiscard]] std::uint64_t slots() const noexcept { return slots_; }
  [[nodiscard]] const EntryCode& code() const noexcept { return code_; }
  /// nullopt: the page of the entry was never written.
  [[nodiscard]] std::optional<ChunkEntry> find(std::uint64_t slot) const;
  void visit(const SlotVisitor& each) const;

 private:
  [[nodiscard]] bool paged() const noexcept { return slots_ > page_slots_; }
  [[nodiscard]] Block prefix() const;
  [[nodiscard]] Block read_page(const Block& head, std::uint64_t number) const;

  const Source* source_;
  EntryCode code_;
  std::uint64_t header_ = undefined, data_ = undefined;  // in the file
  std::uint64_t slots_ = 0, page_slots_ = 0;
};

}  // namespace bitrift::h5map
