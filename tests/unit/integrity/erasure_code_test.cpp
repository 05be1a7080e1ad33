#include "integrity/seal/erasure_code.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <gmock/gmock.h>

namespace bitrift::integrity {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Rows = std::vector<Bytes>;

/// Multiplication in GF(2^8) by the definition: shift and reduce by x^8 + x^4 + x^3 + x^2 + 1.
std::uint8_t times(unsigned a, unsigned b) {
  unsigned product = 0;
  for (; b != 0; b >>= 1U) {
    if ((b & 1U) != 0) product ^= a;
    a <<= 1U;
    if ((a & 0x100U) != 0) a ^= 0x11dU;
  }
  return static_cast<std::uint8_t>(product);
}

std::uint8_t inverse(unsigned a) {
  for (unsigned b = 1; b < 256; ++b) {
    if (times(a, b) == 1) return static_cast<std::uint8_t>(b);
  }
  return 0;
}

Rows random_rows(std::mt19937_64& random, std::size_t count, std::size_t bytes) {
  Rows rows(count, Bytes(bytes));
  for (Bytes& row : rows)
    std::generate(row.begin(), row.end(), [&] { return static_cast<std::uint8_t>(random()); });
  return rows;
}

std::vector<std::uint8_t*> pointers(Rows& rows) {
  std::vector<std::uint8_t*> all;
  for (Bytes& row : rows) all.push_back(row.data());
  return all;
}

std::vector<unsigned> drawn(std::mt19937_64& random, unsigned of, std::size_t count) {
  std::vector<unsigned> rows(of);
  std::iota(rows.begin(), rows.end(), 0U);
  std::shuffle(rows.begin(), rows.end(), random);
  rows.resize(count);
  std::sort(rows.begin(), rows.end());
  return rows;
}

/// Sums of the parity rows over all data rows but those that are left out.
Rows sums_over(const ErasureCode& code, const Rows& data, std::size_t parity_rows,
               const std::vector<unsigned>& left_out) {
  Rows sums(parity_rows, Bytes(data.front().size()));
  for (unsigned row = 0; row < data.size(); ++row) {
    if (std::find(left_out.begin(), left_out.end(), row) == left_out.end())
      code.add(row, data[row].data(), data[row].size(), pointers(sums));
  }
  return sums;
}

TEST(ErasureCode, ParityIsTheSumOfItsDefinition) {
  std::mt19937_64 random(1);
  const Rows data = random_rows(random, 5, 3);
  const ErasureCode code(5, {0, 2});
  const Rows sums = sums_over(code, data, 2, {});
  for (const unsigned parity : {0U, 2U}) {
    for (std::size_t i = 0; i < 3; ++i) {
      unsigned sum = 0;
      for (unsigned row = 0; row < 5; ++row) sum ^= times(inverse((255 - parity) ^ row), data[row][i]);
      EXPECT_EQ(sums[parity / 2][i], sum);
    }
  }
}

TEST(ErasureCode, AnyLostRowsComeBackFromAsManyParityRows) {
  std::mt19937_64 random(2);
  for (const auto& [data_rows, parity_rows] :
       {std::pair{200U, 2U}, {1U, 1U}, {3U, 5U}, {127U, 128U}, {254U, 1U}, {40U, 20U}}) {
    const Rows data = random_rows(random, data_rows, 64 + data_rows % 3);
    for (int i = 0; i < 30; ++i) {
      const std::size_t count = 1 + random() % std::min(data_rows, parity_rows);
      const auto lost = drawn(random, data_rows, count);
      const auto parity = drawn(random, parity_rows, count);
      const ErasureCode code(data_rows, parity);
      Rows sums = sums_over(code, data, count, {});
      const Rows others = sums_over(code, data, count, lost);
      for (std::size_t row = 0; row < count; ++row) {
        for (std::size_t k = 0; k < sums[row].size(); ++k) sums[row][k] ^= others[row][k];
      }
      Rows found(count, Bytes(data.front().size()));
      code.solve(lost, found.front().size(), pointers(sums), pointers(found));
      for (std::size_t row = 0; row < count; ++row) EXPECT_EQ(found[row], data[lost[row]]);
    }
  }
}

}  // namespace
}  // namespace bitrift::integrity
