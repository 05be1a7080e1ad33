// A random permutation of [0, n) that needs no memory: draws without replacement from any population.
#pragma once

#include <cstdint>

namespace bitrift {

/// A keyed bijection of [0, size): a six-round Feistel network whose round function is Philox, walked along its
/// cycle until the value falls inside (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002,
/// section 3: cycle walking). The i-th draw without replacement is permutation(i), a pure function of (key, i).
class Permutation {
 public:
  /// size: 1 .. 2^62. Throws Error(bad_input) otherwise.
  Permutation(std::uint64_t size, std::uint64_t key);
  /// Where i goes; i must be below size(). Expected cost: at most four network evaluations.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t i) const;
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

 private:
  [[nodiscard]] std::uint64_t network(std::uint64_t value) const noexcept;

  std::uint64_t size_;
  std::uint64_t key_;
  unsigned half_bits_;  // the network acts on 2 * half_bits_ bits
};

}  // namespace bitrift
