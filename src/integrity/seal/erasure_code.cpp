#include "integrity/seal/erasure_code.h"

#include <utility>

#include <isa-l/erasure_code.h>

#include "core/error.h"

namespace bitrift::integrity {
namespace {

constexpr std::size_t factor_table_bytes = 32;  // of ISA-L, for each factor

std::uint8_t factor(unsigned parity_row, unsigned data_row) {
  return gf_inv(static_cast<std::uint8_t>((255U - parity_row) ^ data_row));
}

}  // namespace

ErasureCode::ErasureCode(unsigned data_rows, std::vector<unsigned> parity_rows)
    : data_rows_(data_rows),
      parity_rows_(std::move(parity_rows)),
      tables_(factor_table_bytes * data_rows_ * parity_rows_.size()) {
  std::vector<std::uint8_t> factors;
  for (const unsigned parity : parity_rows_) {
    for (unsigned data = 0; data < data_rows_; ++data) factors.push_back(factor(parity, data));
  }
  ec_init_tables(static_cast<int>(data_rows_), static_cast<int>(parity_rows_.size()), factors.data(),
                 tables_.data());
}

void ErasureCode::add(unsigned data_row, const std::uint8_t* data, std::size_t bytes,
                      const std::vector<std::uint8_t*>& sums) const {
  auto targets = sums;
  ec_encode_data_update(static_cast<int>(bytes), static_cast<int>(data_rows_),
                        static_cast<int>(parity_rows_.size()), static_cast<int>(data_row), tables_.data(),
                        const_cast<std::uint8_t*>(data), targets.data());  // NOLINT(*-const-cast): as above
}

void ErasureCode::solve(const std::vector<unsigned>& lost, std::size_t bytes,
                        const std::vector<std::uint8_t*>& sums,
                        const std::vector<std::uint8_t*>& rows) const {
  const std::size_t count = lost.size();
  std::vector<std::uint8_t> matrix;
  for (const unsigned parity : parity_rows_) {
    for (const unsigned data : lost) matrix.push_back(factor(parity, data));
  }
  std::vector<std::uint8_t> inverse(count * count);
  const int size = static_cast<int>(count);
  if (gf_invert_matrix(matrix.data(), inverse.data(), size) != 0)
    fail(ErrorCode::internal, "a part of a Cauchy matrix has no inverse");
  std::vector<std::uint8_t> tables(factor_table_bytes * count * count);
  ec_init_tables(size, size, inverse.data(), tables.data());
  auto sources = sums;
  auto targets = rows;
  ec_encode_data(static_cast<int>(bytes), size, size, tables.data(), sources.data(), targets.data());
}

}  // namespace bitrift::integrity
