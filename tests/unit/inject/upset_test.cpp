#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "inject/upset/dram.h"
#include "inject/upset/secded.h"
#include "inject/upset/upsets.h"

namespace bitrift::inject {
namespace {

using record::Ecc;
using record::UpsetMode;

WordError wrong_bit(unsigned bit) {
  if (bit < 64) return {std::uint64_t{1} << bit, 0};
  return {0, static_cast<std::uint8_t>(1U << (bit - 64))};
}

WordError both(const WordError& a, const WordError& b) {
  return {a.data ^ b.data, static_cast<std::uint8_t>(a.check ^ b.check)};
}

class Secded : public ::testing::TestWithParam<unsigned> {};

TEST_P(Secded, HasDistinctOddColumnsAndRowsOfEqualWeight) {
  std::set<std::uint8_t> columns;
  std::vector<int> ones(8);
  int of_three = 0;
  for (unsigned bit = 0; bit < 64; ++bit) {
    const std::uint8_t column = secded_column(GetParam(), bit);
    EXPECT_TRUE(columns.insert(column).second);
    EXPECT_EQ(std::popcount(column) % 2, 1);
    of_three += std::popcount(column) == 3 ? 1 : 0;
    for (unsigned row = 0; row < 8; ++row) ones[row] += column >> row & 1;
  }
  EXPECT_EQ(of_three, 56);
  EXPECT_EQ(ones, std::vector<int>(8, 26));
}

TEST_P(Secded, CorrectsEverySingleBitAndDetectsEveryPair) {
  EXPECT_FALSE(decode_secded(GetParam(), {}).detected);
  for (unsigned a = 0; a < 72; ++a) {
    const Decoded one = decode_secded(GetParam(), wrong_bit(a));
    EXPECT_FALSE(one.detected);
    EXPECT_EQ(one.data, 0U);
    for (unsigned b = 0; b < a; ++b) {
      EXPECT_TRUE(decode_secded(GetParam(), both(wrong_bit(a), wrong_bit(b))).detected);
    }
  }
}

// Where the decoder changes a bit, the result is a word of the code again: its syndrome is 0.
TEST_P(Secded, WhatIsNotReportedIsAWordOfTheCode) {
  int silent = 0;
  for (unsigned a = 0; a < 72; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      for (unsigned c = 0; c < b; ++c) {
        const WordError error = both(both(wrong_bit(a), wrong_bit(b)), wrong_bit(c));
        const Decoded decoded = decode_secded(GetParam(), error);
        if (decoded.detected) continue;
        ++silent;
        const std::uint64_t changed = decoded.data ^ error.data;
        EXPECT_LE(std::popcount(changed), 1);
        std::uint8_t syndrome = error.check;
        for (unsigned bit = 0; bit < 64; ++bit) {
          if ((decoded.data >> bit & 1) != 0) syndrome ^= secded_column(GetParam(), bit);
        }
        // If no data bit was changed, a check bit was.
        EXPECT_LE(std::popcount(syndrome), changed == 0 ? 1 : 0);
      }
    }
  }
  EXPECT_GT(silent, 0);
}

INSTANTIATE_TEST_SUITE_P(Codes, Secded, ::testing::Range(0U, secded_codes));

TEST(SecdedCodes, AreDifferent) {
  std::set<std::vector<std::uint8_t>> codes;
  for (unsigned code = 0; code < secded_codes; ++code) {
    std::vector<std::uint8_t> columns;
    for (unsigned bit = 0; bit < 64; ++bit) columns.push_back(secded_column(code, bit));
    codes.insert(columns);
  }
  EXPECT_EQ(codes.size(), secded_codes);
}

NumberFormat format(const char* name) { return number_format(name).value(); }

// Bank, row and column of a word of a rank, from the layout of the documentation.
struct Cell {
  std::uint64_t rank, bank, row, column;
};
Cell cell_of(std::uint64_t word) {
  const std::uint64_t inside = word % (std::uint64_t{8} * 16384 * 2048);
  return {word / (std::uint64_t{8} * 16384 * 2048), inside / 2048 % 8, inside / 16384, inside % 2048};
}

using PartKey = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
PartKey key_of(UpsetMode mode, std::uint64_t word) {
  const auto [rank, bank, row, column] = cell_of(word);
  switch (mode) {
    case UpsetMode::column:
      return {rank, bank, 0, column};
    case UpsetMode::row:
      return {rank, bank, row, 0};
    case UpsetMode::bank:
      return {rank, bank, 0, 0};
    case UpsetMode::chip:
      return {rank, 0, 0, 0};
    default:
      return {rank, bank, row, column};
  }
}

class Parts : public ::testing::TestWithParam<UpsetMode> {};

TEST_P(Parts, HoldTheWordsThatTheLayoutSays) {
  // 17 words and one byte; a tensor of several stripes that ends in a row; words of padded numbers; one byte.
  const MemoryImage image({{format("float64"), 17},
                           {format("int8"), 1},
                           {format("float32"), 2 * 40'003},
                           {format("int12_in_16"), 5000},
                           {format("float16"), 3},
                           {format("uint8"), 1}});
  std::map<PartKey, std::map<std::size_t, std::uint64_t>> counts;
  std::map<PartKey, std::vector<std::uint64_t>> members;
  for (const WordRun& run : image.runs()) {
    for (std::uint64_t word = run.first; word < run.first + run.words; ++word) {
      ++counts[key_of(GetParam(), word)][run.kind];
      members[key_of(GetParam(), word)].push_back(word);
    }
  }
  std::uint64_t parts = 0;
  for (const MemoryImage::Part& part : image.parts(GetParam())) {
    for (std::uint64_t copy = 0; copy < part.copies; ++copy) {
      ++parts;
      const PartKey key = key_of(GetParam(), part.copies > 1 ? part.extent.first + copy : part.extent.first);
      ASSERT_TRUE(counts.contains(key));
      for (std::size_t kind = 0; kind < part.words.size(); ++kind)
        EXPECT_EQ(part.words[kind], counts[key][kind]);
    }
    if (part.copies > 1) continue;
    std::vector<std::uint64_t> visited;
    image.visit_words(part.extent, [&](const WordRun&, std::uint64_t word) { visited.push_back(word); });
    EXPECT_EQ(visited, members[key_of(GetParam(), part.extent.first)]);
  }
  EXPECT_EQ(parts, counts.size());
}

INSTANTIATE_TEST_SUITE_P(AllModes, Parts,
                         ::testing::Values(UpsetMode::bit, UpsetMode::word, UpsetMode::column, UpsetMode::row,
                                           UpsetMode::bank, UpsetMode::chip),
                         [](const auto& info) { return name_of(info.param); });

TEST(MemoryImage, GoesOnInTheNextRank) {
  const std::uint64_t words = dram::words_of_rank + 5000;
  const MemoryImage image({{format("float64"), words}});
  for (const auto& [mode, parts] :
       {std::pair{UpsetMode::chip, std::size_t{2}}, std::pair{UpsetMode::bank, std::size_t{8 + 3}},
        std::pair{UpsetMode::row, std::size_t{8 * 16384 + 3}},
        std::pair{UpsetMode::column, std::size_t{8 * 2048 + 5000}}}) {
    const auto all = image.parts(mode);
    EXPECT_EQ(all.size(), parts) << name_of(mode);
    std::uint64_t sum = 0;
    for (const MemoryImage::Part& part : all) sum += part.words[0];
    EXPECT_EQ(sum, words) << name_of(mode);
  }
}

TEST(MemoryImage, PlacesBlocksAtMultiplesOf512Bytes) {
  const MemoryImage image({{format("float32"), 3}, {format("float16"), 64 * 4}, {format("bool"), 9}});
  const auto& runs = image.runs();
  ASSERT_EQ(runs.size(), 5U);
  EXPECT_EQ(runs[0].first, 0U);
  EXPECT_EQ(runs[1].first, 1U);
  EXPECT_EQ(image.value_bits()[runs[1].kind], 0xffffffffU);
  EXPECT_EQ(runs[2].first, 64U);
  EXPECT_EQ(runs[2].words, 64U);
  EXPECT_EQ(runs[3].first, 128U);
  EXPECT_EQ(image.value_bits()[runs[3].kind], 0x0101010101010101U);
  EXPECT_EQ(runs[4].skipped, 1U);
  EXPECT_EQ(image.value_bits()[runs[4].kind], 1U);
}

TEST(MemoryImage, WrongBitsBelongToTheElementsThatHoldThem) {
  using Wrong = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  EXPECT_EQ(wrong_values(format("float32"), 5, 0x8000'0000'0000'0001), (Wrong{{10, 1}, {11, 0x80000000}}));
  EXPECT_EQ(wrong_values(format("float64"), 2, 0x3), (Wrong{{2, 3}}));
  EXPECT_EQ(wrong_values(format("int8"), 1, 0x0100'0000'0000'0080), (Wrong{{8, 0x80}, {15, 1}}));
  EXPECT_EQ(wrong_values(format("uint12_in_16_at_4"), 0, 0xffff), (Wrong{{0, 0xfff}}));
  EXPECT_EQ(wrong_values(format("bool"), 0, 0xfe), Wrong{});
}

record::FaultModel model(Ecc ecc, UpsetMode mode) {
  record::FaultModel model;
  model.what = record::FaultKind::upset;
  model.ecc = ecc;
  model.upset_mode = mode;
  return model;
}

// Two words in one row: every pattern of every chip, one after the other.
TEST(Upsets, SharesAndDrawsEqualAnEnumeration) {
  const MemoryImage image({{format("float32"), 4}});
  for (const Ecc ecc : {Ecc::none, Ecc::secded}) {
    const Upsets upsets(image, model(ecc, UpsetMode::row));
    const unsigned chips = ecc == Ecc::none ? 16 : 18;
    const unsigned codes = ecc == Ecc::none ? 1 : secded_codes;
    std::map<std::pair<std::uint64_t, std::uint64_t>, double> expected;  // wrong bits of both words
    double corrected = 0;
    double detected = 0;
    double escaped = 0;
    const auto decode = [&](unsigned code, unsigned chip, std::uint64_t pattern) {
      const WordError error = chip < 16 ? WordError{pattern << 4 * chip, 0}
                                        : WordError{0, static_cast<std::uint8_t>(pattern << 4 * (chip - 16))};
      return ecc == Ecc::none ? Decoded{false, error.data} : decode_secded(code, error);
    };
    for (unsigned coded = 0; coded < codes * chips; ++coded) {
      const unsigned code = coded / chips;
      const unsigned chip = coded % chips;
      for (std::uint64_t a = 0; a < 16; ++a) {
        for (std::uint64_t b = 0; b < 16; ++b) {
          const Decoded first = decode(code, chip, a);
          const Decoded second = decode(code, chip, b);
          if (first.detected || second.detected) {
            detected += 1;
          } else if ((first.data | second.data) == 0) {
            corrected += 1;
          } else {
            escaped += 1;
            expected[{first.data, second.data}] += 1;
          }
        }
      }
    }
    const double all = 256.0 * codes * chips;
    // 0.2 failures of a chip in 10^9 hours are in one of its 8 x 16,384 rows.
    const double rate = 0.2e-9 / (8 * 16384) * chips * 24'000;
    ASSERT_EQ(upsets.shares().size(), 1U);
    const UpsetShare& share = upsets.shares()[0];
    EXPECT_NEAR(share.corrected, rate * corrected / all, rate * 1e-12);
    EXPECT_NEAR(share.detected, rate * detected / all, rate * 1e-12);
    EXPECT_NEAR(share.escaped, rate * escaped / all, rate * 1e-12);
    std::map<std::pair<std::uint64_t, std::uint64_t>, int> drawn;
    constexpr int draws = 200'000;
    for (int i = 0; i < draws; ++i) {
      std::pair<std::uint64_t, std::uint64_t> words;
      for (const Upsets::WrongWord& one : upsets.draw(77, i))
        (one.word == 0 ? words.first : words.second) = one.bits;
      ++drawn[words];
    }
    double chi_square = 0;
    for (const auto& [words, weight] : expected) {
      const double mean = draws * weight / escaped;
      chi_square += (drawn[words] - mean) * (drawn[words] - mean) / mean;
    }
    EXPECT_EQ(drawn.size(), expected.size());
    const auto freedom = static_cast<double>(expected.size() - 1);
    EXPECT_NEAR(chi_square, freedom, 5 * std::sqrt(2 * freedom)) << name_of(ecc);
  }
}

TEST(Upsets, OfSingleBitsEscapeOnlyAMemoryWithoutCode) {
  const MemoryImage image({{format("float32"), 1000}});
  const Upsets upsets(image, model(Ecc::none, UpsetMode::bit));
  // 14.2 failures of a chip in 10^9 hours are in one of its 2^30 bits; the image has 500 words of 64 bits.
  EXPECT_NEAR(upsets.shares()[0].escaped, 14.2e-9 / (1 << 30) * 500 * 64 * 24'000, 1e-15);
  EXPECT_EQ(upsets.shares()[0].corrected, 0);
  std::vector<int> words(500);
  for (int i = 0; i < 50'000; ++i) {
    const auto wrong = upsets.draw(3, i);
    ASSERT_EQ(wrong.size(), 1U);
    EXPECT_EQ(std::popcount(wrong[0].bits), 1);
    ++words.at(wrong[0].word);
  }
  double chi_square = 0;
  for (const int count : words) chi_square += (count - 100.0) * (count - 100.0) / 100;
  EXPECT_NEAR(chi_square, 499, 5 * std::sqrt(2 * 499));
  EXPECT_THROW(Upsets(image, model(Ecc::secded, UpsetMode::bit)), Error);
}

TEST(Upsets, ModesAreDrawnAsOftenAsTheyEscape) {
  const MemoryImage image({{format("float32"), 2 * 16 * 2048}});  // two rows of every bank
  record::FaultModel any = model(Ecc::none, UpsetMode::bit);
  any.upset_mode.reset();
  any.upset_rates = record::UpsetRates::permanent;
  const Upsets upsets(image, any);
  double sum = 0;
  for (const UpsetShare& share : upsets.shares()) sum += share.escaped;
  // Upsets that strike more words than a row has are those of banks and of chips.
  const double large = (upsets.shares()[4].escaped + upsets.shares()[5].escaped) / sum;
  int drawn = 0;
  constexpr int draws = 4000;
  for (int i = 0; i < draws; ++i) drawn += upsets.draw(11, i).size() > 2048 ? 1 : 0;
  EXPECT_NEAR(drawn, draws * large, 5 * std::sqrt(draws * large * (1 - large)));
}

TEST(Upsets, NothingEscapesChipkill) {
  const MemoryImage image({{format("bfloat16"), 1000}});
  record::FaultModel any = model(Ecc::chipkill, UpsetMode::bit);
  any.upset_mode.reset();
  try {
    const Upsets upsets(image, any);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_STREQ(error.what(),
                 "--ecc chipkill corrects or reports every upset of memory that strikes one chip, so none "
                 "escapes, and there is nothing to inject; choose another code");
  }
}

}  // namespace
}  // namespace bitrift::inject
