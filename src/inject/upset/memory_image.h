// How tensors are laid out in a memory, word by word.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/number/number_format.h"
#include "record/fault/fault.h"

namespace bitrift::inject {

/// A tensor in memory: its elements in row-major order, little-endian.
struct MemoryBlock {
  NumberFormat format;
  std::uint64_t elements = 0;
};

/// Words `first`, `first` + 1, ... of one block that have the same bits of values.
struct WordRun {
  std::uint64_t first = 0, words = 0;
  std::size_t kind = 0;  ///< index into MemoryImage::value_bits()
  std::size_t block = 0;
  std::uint64_t skipped = 0;  ///< words of the block before the first one
};

/// The words of a part of a memory: `length` of every `stride`, from `first` up to `end`.
struct Extent {
  std::uint64_t first = 0, length = 1, stride = 1, end = 0;
  /// How many of its words are below `word`.
  [[nodiscard]] std::uint64_t below(std::uint64_t word) const noexcept;
};

/// Blocks one after another, each at a multiple of 512 bytes, as the allocator of PyTorch places tensors.
class MemoryImage {
 public:
  explicit MemoryImage(const std::vector<MemoryBlock>& blocks);

  [[nodiscard]] const std::vector<WordRun>& runs() const noexcept { return runs_; }  ///< ascending
  /// The kinds of words: which of their bits belong to a value. Padding of numbers does not, nor do bytes
  /// after the end of a block.
  [[nodiscard]] const std::vector<std::uint64_t>& value_bits() const noexcept { return value_bits_; }

  /// A part of a chip that holds words of the image.
  struct Part {
    Extent extent;
    /// Bits and words: as many parts, each one word further than the one before.
    std::uint64_t copies = 1;
    std::vector<std::uint64_t> words = {};  ///< of the image, by kind; of one copy
  };
  [[nodiscard]] std::vector<Part> parts(record::UpsetMode mode) const;

  /// The words of the image in an extent, ascending: visit(run, word).
  template <typename Visit>
  void visit_words(const Extent& extent, Visit visit) const {
    for (const WordRun& run : runs_) {
      const std::uint64_t end = run.first + run.words;
      if (end <= extent.first) continue;
      if (run.first >= extent.end) break;
      std::uint64_t at = run.first > extent.first ? (run.first - extent.first) / extent.stride : 0;
      for (;; ++at) {
        const std::uint64_t start = extent.first + at * extent.stride;
        if (start >= end || start >= extent.end) break;
        for (std::uint64_t word = std::max(start, run.first);
             word < std::min({start + extent.length, end, extent.end}); ++word) {
          visit(run, word);
        }
      }
    }
  }

 private:
  [[nodiscard]] std::size_t kind_of(std::uint64_t value_bits);

  std::vector<WordRun> runs_;
  std::vector<std::uint64_t> value_bits_;
};

/// The bits of a word that are wrong, as wrong bits of the values in it: pairs of an element of the block and
/// a mask of its value, ascending. `word` counts from the start of the block.
[[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> wrong_values(const NumberFormat& format,
                                                                                std::uint64_t word,
                                                                                std::uint64_t wrong_bits);

}  // namespace bitrift::inject
