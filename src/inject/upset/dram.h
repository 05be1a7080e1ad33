// The memory that upsets strike: ranks of DRAM chips, and how often each part of a chip fails.
#pragma once

#include <cstdint>

#include "record/fault/fault.h"

namespace bitrift::inject::dram {

// A rank as the simulator FaultSim has it by default (Nair, Roberts, Qureshi, "FaultSim: a fast, configurable
// memory-reliability simulator for conventional and 3D-stacked systems", ACM TACO 12 (4), 2015): 18 chips of
// 1 Gbit, each with 4 bits of every 72-bit word, which are 16 chips of data and 2 of check bits; 8 banks of
// 16,384 rows of 2,048 columns. Word w of a rank is in column w mod 2048 of bank (w / 2048) mod 8, in row
// w / 16384, so neighbouring words share a row, and neighbouring rows are in different banks.
inline constexpr unsigned bits_of_chip = 4;  ///< in a word
inline constexpr unsigned data_chips = 16;
inline constexpr unsigned check_chips = 2;
inline constexpr std::uint64_t word_bytes = 8;  ///< of data
inline constexpr std::uint64_t columns = 2048;
inline constexpr std::uint64_t banks = 8;
inline constexpr std::uint64_t rows = 16384;  ///< of a bank
inline constexpr std::uint64_t words_of_stripe = columns * banks;
inline constexpr std::uint64_t words_of_rank = words_of_stripe * rows;

/// Failures of a part of one chip in 10^9 hours: Sridharan and Liberty, "A study of DRAM failures in the
/// field", SC 2012, as FaultSim has them. The rate of a chip is that of several banks and of several ranks
/// together.
[[nodiscard]] double failures(record::UpsetMode mode, record::UpsetRates rates) noexcept;

/// How many parts of this kind a chip has; its bits in one word count as one.
[[nodiscard]] double parts_of_chip(record::UpsetMode mode) noexcept;

}  // namespace bitrift::inject::dram
