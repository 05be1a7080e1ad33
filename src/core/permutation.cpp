#include "core/permutation.h"

#include <bit>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/philox.h"

namespace bitrift {
namespace {
constexpr std::uint64_t largest_shuffle = std::uint64_t{1} << 16;
}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t key) : size_(size), key_(key) {
  if (size == 0 || size > (std::uint64_t{1} << 63)) {
    fail(ErrorCode::bad_input, "a population of {} cannot be drawn from; it must hold 1 to 2^63 members",
         size);
  }
  if (size <= largest_shuffle) {
    shuffled_.resize(size);
    std::iota(shuffled_.begin(), shuffled_.end(), std::uint32_t{0});
    for (std::uint64_t i = size - 1; i > 0; --i) {
      std::swap(shuffled_[i], shuffled_[random_below(key, i, 0, i + 1)]);
    }
    return;
  }
  half_bits_ = (static_cast<unsigned>(std::bit_width(size - 1)) + 1) / 2;
}

std::uint64_t Permutation::network(std::uint64_t value) const noexcept {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < 6; ++round) {
    const std::uint64_t next = left ^ (random_u64(key_, right, round) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
  if (i >= size_) fail(ErrorCode::internal, "draw {} from a population of {}", i, size_);
  if (!shuffled_.empty()) return shuffled_[i];
  std::uint64_t value = i;
  do {
    value = network(value);
  } while (value >= size_);
  return value;
}

}  // namespace bitrift
