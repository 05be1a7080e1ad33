// Reed-Solomon parity over GF(2^8): rows of bytes that can be calculated again when as many are lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bitrift::integrity {

/// Some rows of a systematic code. Parity row p is the sum of all data rows d, each times 1 / ((255 - p) +
/// d), in GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1, whose addition is XOR. These factors are a
/// Cauchy matrix, of which every square part has an inverse, so any `n` parity rows restore any `n` lost data
/// rows (Bloemer et al., "An XOR-based erasure-resilient coding scheme", ICSI TR-95-048, 1995). The work is
/// done by ISA-L. Thread-safe.
class ErasureCode {
 public:
  static constexpr unsigned most_rows = 255;  ///< of data and parity together

  ErasureCode(unsigned data_rows, std::vector<unsigned> parity_rows);

  /// Adds a data row to the sums: one for each parity row, in their order, of `bytes` bytes.
  void add(unsigned data_row, const std::uint8_t* data, std::size_t bytes,
           const std::vector<std::uint8_t*>& sums) const;

  /// From sums over the lost data rows alone, of which there are as many as parity rows, these rows, in the
  /// order of `lost`.
  void solve(const std::vector<unsigned>& lost, std::size_t bytes, const std::vector<std::uint8_t*>& sums,
             const std::vector<std::uint8_t*>& rows) const;

 private:
  unsigned data_rows_;
  std::vector<unsigned> parity_rows_;
  mutable std::vector<std::uint8_t> tables_;  // ISA-L takes them without const, and does not write
};

}  // namespace bitrift::integrity
