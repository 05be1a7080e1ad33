#include "inject/upset/memory_image.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "inject/upset/dram.h"

namespace bitrift::inject {
namespace {

using record::UpsetMode;

constexpr std::uint64_t alignment = 512 / dram::word_bytes;  // of a block, in words

std::uint64_t round_up(std::uint64_t number, std::uint64_t step) { return (number + step - 1) / step * step; }

/// The value bits among the first `bytes` bytes of a word.
std::uint64_t value_bits_of(const NumberFormat& format, std::uint64_t bytes) {
  const std::uint64_t one = format.mask() << format.bit_offset;
  std::uint64_t bits = 0;
  for (std::uint64_t byte = 0; byte < bytes; byte += format.bytes) bits |= one << 8 * byte;
  return bits;
}

/// The parts of a mode are numbered; this is the words of one of them.
Extent extent_of(UpsetMode mode, std::uint64_t number) {
  const auto in_rank = [](std::uint64_t rank, std::uint64_t first, std::uint64_t length) {
    const std::uint64_t start = rank * dram::words_of_rank;
    return Extent{start + first, length, dram::words_of_stripe, start + dram::words_of_rank};
  };
  switch (mode) {
    case UpsetMode::row:
      return {number * dram::columns, dram::columns, dram::columns, (number + 1) * dram::columns};
    case UpsetMode::column:
      return in_rank(number / dram::words_of_stripe, number % dram::words_of_stripe, 1);
    case UpsetMode::bank:
      return in_rank(number / dram::banks, number % dram::banks * dram::columns, dram::columns);
    case UpsetMode::chip:
      return in_rank(number, 0, dram::words_of_stripe);
    case UpsetMode::bit:
    case UpsetMode::word:
      break;
  }
  return {number, 1, 1, number + 1};
}

/// The number of the part that holds a word.
std::uint64_t part_of(UpsetMode mode, std::uint64_t word) {
  const std::uint64_t rank = word / dram::words_of_rank;
  switch (mode) {
    case UpsetMode::row:
      return word / dram::columns;
    case UpsetMode::column:
      return rank * dram::words_of_stripe + word % dram::words_of_stripe;
    case UpsetMode::bank:
      return rank * dram::banks + word / dram::columns % dram::banks;
    case UpsetMode::chip:
      return rank;
    case UpsetMode::bit:
    case UpsetMode::word:
      break;
  }
  return word;
}

/// The numbers of the parts that hold words of a run; some may come twice.
std::vector<std::uint64_t> numbers(UpsetMode mode, const WordRun& run) {
  std::vector<std::uint64_t> numbers;
  const bool interleaved = mode == UpsetMode::column || mode == UpsetMode::bank;
  const std::uint64_t step = mode == UpsetMode::column ? 1
                             : mode == UpsetMode::chip ? dram::words_of_rank
                                                       : dram::columns;
  const std::uint64_t end = run.first + run.words;
  for (std::uint64_t start = run.first; start < end;) {
    const std::uint64_t rank_end = std::min(end, round_up(start + 1, dram::words_of_rank));
    // A stripe holds a word of every part of its rank.
    const std::uint64_t last = interleaved ? std::min(rank_end, start + dram::words_of_stripe) : rank_end;
    for (std::uint64_t word = start; word < last; word = round_up(word + 1, step)) {
      numbers.push_back(part_of(mode, word));
    }
    start = rank_end;
  }
  return numbers;
}

}  // namespace

std::uint64_t Extent::below(std::uint64_t word) const noexcept {
  word = std::min(word, end);
  if (word <= first) return 0;
  return (word - first) / stride * length + std::min((word - first) % stride, length);
}

MemoryImage::MemoryImage(const std::vector<MemoryBlock>& blocks) {
  std::uint64_t next = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const MemoryBlock& block = blocks[i];
    const std::uint64_t bytes = block.elements * block.format.bytes;
    const std::uint64_t whole = bytes / dram::word_bytes;
    const std::uint64_t rest = bytes % dram::word_bytes;
    if (whole > 0) {
      runs_.push_back({next, whole, kind_of(value_bits_of(block.format, dram::word_bytes)), i, 0});
    }
    if (rest > 0) runs_.push_back({next + whole, 1, kind_of(value_bits_of(block.format, rest)), i, whole});
    next = round_up(next + whole + (rest > 0 ? 1 : 0), alignment);
  }
}

std::size_t MemoryImage::kind_of(std::uint64_t value_bits) {
  const auto found = std::ranges::find(value_bits_, value_bits);
  const auto kind = static_cast<std::size_t>(found - value_bits_.begin());
  if (found == value_bits_.end()) value_bits_.push_back(value_bits);
  return kind;
}

std::vector<MemoryImage::Part> MemoryImage::parts(UpsetMode mode) const {
  std::vector<Part> parts;
  if (mode == UpsetMode::bit || mode == UpsetMode::word) {
    for (const WordRun& run : runs_) {
      parts.push_back(
          {extent_of(mode, run.first), run.words, std::vector<std::uint64_t>(value_bits_.size())});
      parts.back().words[run.kind] = 1;
    }
    return parts;
  }
  struct Known {
    std::size_t part = 0, run = 0;  // run: the last one that is counted
  };
  std::unordered_map<std::uint64_t, Known> known;
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    for (const std::uint64_t number : numbers(mode, runs_[run])) {
      const auto [at, fresh] = known.try_emplace(number, Known{parts.size(), run});
      if (fresh) {
        parts.push_back({extent_of(mode, number), 1, std::vector<std::uint64_t>(value_bits_.size())});
      } else if (std::exchange(at->second.run, run) == run) {
        continue;
      }
      Part& part = parts[at->second.part];
      const std::uint64_t end = runs_[run].first + runs_[run].words;
      part.words[runs_[run].kind] += part.extent.below(end) - part.extent.below(runs_[run].first);
    }
  }
  return parts;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> wrong_values(const NumberFormat& format,
                                                                  std::uint64_t word,
                                                                  std::uint64_t wrong_bits) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> values;
  for (unsigned byte = 0; byte < dram::word_bytes; byte += format.bytes) {
    const std::uint64_t mask = wrong_bits >> 8 * byte >> format.bit_offset & format.mask();
    if (mask != 0) values.emplace_back((word * dram::word_bytes + byte) / format.bytes, mask);
  }
  return values;
}

}  // namespace bitrift::inject
