// A random permutation of [0, n) in bounded memory: draws without replacement from any population.
#pragma once

#include <cstdint>
#include <vector>

namespace bitrift {

/// A keyed bijection of [0, size). The i-th draw without replacement is permutation(i), a pure function of
/// (key, i). Up to 2^16 members: the exact shuffle of Fisher and Yates (Knuth, TAOCP 2, 3.4.2 P), made once.
/// Above: a six-round Feistel network whose round function is Philox, walked along its cycle until the value
/// falls inside (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, section 3). A
/// Feistel network on few bits reaches only part of all permutations (measured: pairs of draws from 5 members
/// were off by a tenth), hence the two ways.
class Permutation {
 public:
  /// size: 1 .. 2^63. Throws Error(bad_input) otherwise.
  Permutation(std::uint64_t size, std::uint64_t key);
  /// The image of i, which must be below size(). Expected cost: a look-up, or at most four network
  /// evaluations.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t i) const;
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

 private:
  [[nodiscard]] std::uint64_t network(std::uint64_t value) const noexcept;

  std::uint64_t size_;
  std::uint64_t key_;
  unsigned half_bits_ = 0;               // the network acts on 2 * half_bits_ bits
  std::vector<std::uint32_t> shuffled_;  // small populations only
};

}  // namespace bitrift
