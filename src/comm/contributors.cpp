#include "comm/contributors.h"

#include <algorithm>

namespace bitrift::comm {
namespace {

constexpr std::size_t bits_in_word = 64;

}  // namespace

Contributors::Contributors(const Topology& topology)
    : live_(topology.live()),
      index_(static_cast<std::size_t>(topology.chips()), -1),
      words_((live_.size() + bits_in_word - 1) / bits_in_word),
      bits_(live_.size() * 2 * words_),
      all_(2 * words_, 0),
      sum_(live_.size()) {
  for (std::size_t i = 0; i < live_.size(); ++i) {
    index_[static_cast<std::size_t>(live_[i])] = static_cast<int>(i);
    all_[i / bits_in_word] |= std::uint64_t{1} << (i % bits_in_word);
  }
}

void Contributors::begin() {
  std::fill(bits_.begin(), bits_.end(), 0U);
  for (std::size_t i = 0; i < live_.size(); ++i) {
    bits_[i * 2 * words_ + i / bits_in_word] = std::uint64_t{1} << (i % bits_in_word);
    sum_[i] = static_cast<std::uint32_t>(i);
  }
  sums_.clear();
  next_sum_ = static_cast<std::uint32_t>(live_.size());
}

void Contributors::add(int from, int to) {
  const std::uint64_t* const source = &bits_[row(from)];
  std::uint64_t* const target = &bits_[row(to)];
  for (std::size_t i = 0; i < words_; ++i) {
    target[words_ + i] |= source[words_ + i] | (source[i] & target[i]);
    target[i] |= source[i];
  }
  const std::uint32_t one = sum_[row(from) / (2 * words_)];
  std::uint32_t& other = sum_[row(to) / (2 * words_)];
  const auto [least, most] = std::minmax(one, other);
  const auto [known, fresh] = sums_.emplace(std::uint64_t{least} << 32U | most, next_sum_);
  if (fresh) ++next_sum_;
  other = known->second;
}

void Contributors::copy(int from, int to) {
  std::copy_n(bits_.begin() + static_cast<std::ptrdiff_t>(row(from)), 2 * words_,
              bits_.begin() + static_cast<std::ptrdiff_t>(row(to)));
  sum_[row(to) / (2 * words_)] = sum_[row(from) / (2 * words_)];
}

int Contributors::count(int chip, int gradient) const noexcept {
  const auto i = static_cast<std::size_t>(index_[static_cast<std::size_t>(gradient)]);
  const std::size_t word = row(chip) + i / bits_in_word;
  const auto held = [&](std::size_t at) { return static_cast<int>(bits_[at] >> (i % bits_in_word) & 1U); };
  return held(word) + held(word + words_);
}

std::optional<std::pair<int, int>> Contributors::wrong() const {
  for (const int chip : live_) {
    if (std::equal(all_.begin(), all_.end(), bits_.begin() + static_cast<std::ptrdiff_t>(row(chip))))
      continue;
    for (const int gradient : live_) {
      if (count(chip, gradient) != 1) return std::pair(chip, gradient);
    }
  }
  return std::nullopt;
}

bool Contributors::one_order() const noexcept {
  return std::ranges::all_of(sum_, [&](std::uint32_t sum) { return sum == sum_.front(); });
}

}  // namespace bitrift::comm
