// Upsets of memory: how often one escapes a code, and what is wrong then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "inject/upset/memory_image.h"
#include "record/fault/fault.h"

namespace bitrift::inject {

/// How often upsets of one mode strike a part of a chip that holds words of the image, and how they end, in
/// events per 1,000 days of the memory. A word that the code reports as uncorrectable stops the
/// machine, so an upset *escapes* if no word is reported and at least one value is wrong. The sum of
/// corrected, detected and escaped is the rate of all.
struct UpsetShare {
  record::UpsetMode mode = record::UpsetMode::bit;
  double corrected = 0;  ///< no value is wrong
  double detected = 0;
  double escaped = 0;
};

/// The upsets of the memory that holds an image. A struck bit is wrong; in a struck word, at least two of the
/// chip's bits are wrong; in a larger part, each bit is wrong with probability 1/2.
class Upsets {
 public:
  /// If the model names a mode, only that one has a share. Throws Error(bad_input) when no upset escapes.
  Upsets(MemoryImage image, const record::FaultModel& model);

  [[nodiscard]] const std::vector<UpsetShare>& shares() const noexcept { return shares_; }
  /// The most words that are wrong after one upset that escapes.
  [[nodiscard]] std::uint64_t most_words() const noexcept;

  struct WrongWord {
    std::size_t block = 0;
    std::uint64_t word = 0;  ///< from the start of the block
    std::uint64_t bits = 0;  ///< wrong bits of values
  };
  /// Upset `number` of those that escape, a pure function of (key, number): ascending, never empty.
  [[nodiscard]] std::vector<WrongWord> draw(std::uint64_t key, std::uint64_t number) const;

 private:
  /// How the patterns of one chip are decoded in a word of one kind.
  struct Decoding {
    std::vector<std::uint64_t> silent;  ///< for each pattern that is not reported: the wrong bits of values
    double unreported = 0;              ///< share of the patterns that are not reported
    double harmless = 0;                ///< share of those that are not reported and leave no value wrong
  };
  /// By chip and kind of word. Chips of memories with different codes are different: chip c of a memory with
  /// code k is number k x chips + c.
  using Decodings = std::vector<std::vector<Decoding>>;
  /// A part with the probability that an upset of it escapes, by chip.
  struct Source {
    MemoryImage::Part part;
    std::vector<double> escapes;
    double up_to = 0;  ///< rate of escaping upsets in this and all parts before
  };
  /// A mode with upsets that escape.
  struct Mode {
    Decodings decodings;
    std::vector<Source> sources;
    double up_to = 0;  ///< rate of escaping upsets of this and all modes before
  };
  /// The probabilities of how an upset of a part ends.
  struct Chances {
    std::vector<double> escapes;        ///< by chip
    double corrected = 0, escaped = 0;  ///< sums over the chips
  };

  [[nodiscard]] Decodings decodings(record::UpsetMode mode, record::Ecc ecc) const;
  [[nodiscard]] static Chances chances(const Decodings& decodings, const std::vector<std::uint64_t>& words);
  void add(record::UpsetMode mode, const record::FaultModel& model);

  MemoryImage image_;
  std::vector<Mode> modes_;
  std::vector<UpsetShare> shares_;
};

}  // namespace bitrift::inject
