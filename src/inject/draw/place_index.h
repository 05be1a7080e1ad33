// Finds the change of an element.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "record/fault/fault_list.h"

namespace bitrift::inject {

/// A change and the flat index of its element.
struct Placed : record::ElementChange {
  std::uint64_t flat = 0;
};

/// Flat element -> position in a vector of changes: open addressing, half full at most, because a
/// million faults are a million look-ups.
class PlaceIndex {
 public:
  void reserve(std::size_t count) {
    if (2 * count <= slots_.size()) return;
    std::vector<Slot> old(std::bit_ceil(2 * count + 16));
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.position != 0) slots_[find_slot(slot.element)] = slot;
    }
  }
  /// Space must have been reserved; the element must not be in it yet.
  void insert(std::uint64_t element, std::size_t position) {
    slots_[find_slot(element)] = {element, position + 1};
  }
  [[nodiscard]] record::ElementChange* find(std::uint64_t element,
                                            std::vector<Placed>& changes) const noexcept {
    const Slot& slot = slots_[find_slot(element)];
    return slot.position == 0 ? nullptr : &changes[slot.position - 1];
  }

 private:
  struct Slot {
    std::uint64_t element = 0;
    std::uint64_t position = 0;  // plus one; 0: free
  };
  [[nodiscard]] std::size_t find_slot(std::uint64_t element) const noexcept {
    const std::size_t mask = slots_.size() - 1;
    // Fibonacci hashing: the high bits of the product are well mixed.
    std::size_t at = (element * 0x9e3779b97f4a7c15U >> 20) & mask;
    while (slots_[at].position != 0 && slots_[at].element != element) at = (at + 1) & mask;
    return at;
  }
  std::vector<Slot> slots_;
};

}  // namespace bitrift::inject
