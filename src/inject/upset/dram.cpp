#include "inject/upset/dram.h"

#include <array>
#include <cstddef>

namespace bitrift::inject::dram {

using record::UpsetMode;

double failures(UpsetMode mode, record::UpsetRates rates) noexcept {
  // By UpsetMode.
  constexpr std::array transient = {14.2, 1.4, 1.4, 0.2, 0.8, 0.3 + 0.9};
  constexpr std::array permanent = {18.6, 0.3, 5.6, 8.2, 10.0, 1.4 + 2.8};
  const auto at = static_cast<std::size_t>(mode);
  return rates == record::UpsetRates::transient ? transient.at(at) : permanent.at(at);
}

double parts_of_chip(UpsetMode mode) noexcept {
  switch (mode) {
    case UpsetMode::bit:
    case UpsetMode::word:
      return static_cast<double>(words_of_rank);
    case UpsetMode::column:
      return static_cast<double>(banks * columns);
    case UpsetMode::row:
      return static_cast<double>(banks * rows);
    case UpsetMode::bank:
      return static_cast<double>(banks);
    case UpsetMode::chip:
      break;
  }
  return 1;
}

}  // namespace bitrift::inject::dram
