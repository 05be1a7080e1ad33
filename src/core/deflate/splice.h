// Replacements of bits in a deflate stream, chosen so that the bits after them keep their place.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <vector>

#include "core/deflate/bits.h"

namespace bitrift::deflate {

/// Bits [first, end) of a stream, and their replacement, which is stored elsewhere.
struct Splice {
  std::uint64_t first = 0, end = 0;
  std::uint64_t new_first = 0, new_end = 0;
  [[nodiscard]] std::int64_t growth() const noexcept {
    return static_cast<std::int64_t>(new_end - new_first) - static_cast<std::int64_t>(end - first);
  }
};

/// Collects replacements in the order of the stream: required ones, and choices between several forms of the
/// same token. As soon as some choice makes all growths since the last one cancel out, it is made: then the
/// bits after it stay in place, and a file keeps its bytes. If none does, the bits move, up to a place where
/// settle() gives the stream a whole number of bytes.
class SpliceList {
 public:
  SpliceList() { start(0); }

  /// The buffer for new bits before they are passed to one of the members.
  [[nodiscard]] BitWriter& bits() noexcept { return bits_; }

  /// A required replacement, or one of its alternatives `forms`.
  void force(const Splice& splice, std::span<const Splice> forms = {});
  /// Forms that a token may take; it may also stay as it is.
  void offer(std::span<const Splice> forms);
  /// Whether the bits after the last replacement would move.
  [[nodiscard]] bool moved() const noexcept { return moved_; }
  /// Whether a form with that growth over the token's other one is useful: if nothing moves, nothing has to
  /// be compensated, and forms that lead to no new sum of growths only cost time.
  [[nodiscard]] bool wants_form(std::int64_t growth) noexcept;
  /// The same for any form; false also after thousands of questions.
  [[nodiscard]] bool wants_forms() const noexcept { return (moved_ || held_) && asked_ < most_asked; }
  /// While it is held, forms are useful even before anything moves, and no choice is made.
  void hold() noexcept { held_ = true; }
  void release();

  /// Call it for `padding` unused bits from `first` on, which end at a whole byte. Makes the choice that
  /// keeps the size in bytes of everything before them; otherwise the largest smaller size, otherwise the
  /// smallest. The rest moves by whole bytes.
  void settle(std::uint64_t first, unsigned padding);

  /// The stream with all replacements made, after settle().
  [[nodiscard]] Bytes apply(std::span<const std::uint8_t> stream) const;

 private:
  static constexpr std::int64_t farthest = 160;  // bits by which choices may move the bits after them
  static constexpr std::size_t sums = 2 * farthest + 1;
  static constexpr unsigned most_asked = 1U << 15U;
  static constexpr std::size_t none = ~std::size_t{0};

  /// A form whose choice first made a certain sum of growths possible.
  struct Step {
    Splice form;
    std::int64_t growth = 0;
    std::size_t instead_of = none;  // of forced_
  };

  [[nodiscard]] bool reachable(std::int64_t growth) const noexcept;
  [[nodiscard]] std::bitset<sums> sums_with(std::int64_t growth,
                                            const std::bitset<sums>& before) const noexcept;
  void add_forms(std::span<const Splice> forms, std::int64_t kept_growth, std::size_t instead_of);
  void take(std::int64_t growth);
  void take_if_still();
  void start(std::int64_t growth);

  BitWriter bits_;
  std::vector<Splice> settled_, forced_;
  std::int64_t forced_growth_ = 0;
  std::bitset<sums> reached_;     // sums of growths of chosen forms, from -farthest on
  std::array<Step, sums> steps_;  // the last choice for each sum; earlier ones lead to its beginning
  unsigned asked_ = 0;
  bool moved_ = false, held_ = false, joins_ = false;
};

}  // namespace bitrift::deflate
