// A code that corrects one wrong bit of a word of memory and detects two (SECDED).
#pragma once

#include <cstdint>

namespace bitrift::inject {

/// Wrong bits of a word of 64 data bits and 8 check bits.
struct WordError {
  std::uint64_t data = 0;
  std::uint8_t check = 0;
};

/// The result of decoding a word.
struct Decoded {
  bool detected = false;   ///< the word is reported as uncorrectable
  std::uint64_t data = 0;  ///< otherwise: the data bits that are wrong after the correction
};

/// Which errors of three and more bits a code misses depends on the order of the columns of its check matrix,
/// and manufacturers do not publish theirs. So there are this many codes, which differ in the order alone.
inline constexpr unsigned secded_codes = 16;

/// The column of a data bit (0 .. 63) in the check matrix of a (72,64) code of Hsiao, "A class of optimal
/// minimum odd-weight-column SEC-DED codes", IBM Journal of Research and Development 14 (4), 1970. Its
/// columns are the 56 bytes with three ones, ascending, and the 8 rotations of 0x1f to the left; data bit i
/// of code c (0 .. secded_codes - 1) has column Permutation(64, derive_key(c, "inject.secded"))(i) of these.
/// Every row of the matrix has 26 ones of data bits. The column of check bit i is 1 << i.
[[nodiscard]] std::uint8_t secded_column(unsigned code, unsigned data_bit);

/// The codes are linear, so the result depends on the wrong bits alone and not on the data.
[[nodiscard]] Decoded decode_secded(unsigned code, const WordError& error);

}  // namespace bitrift::inject
