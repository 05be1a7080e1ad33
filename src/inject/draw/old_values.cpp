#include "inject/draw/old_values.h"

#include <algorithm>
#include <numeric>

#include <fcntl.h>

namespace bitrift::inject {
namespace {

/// Reading a gap of this many bytes costs less than a second call; a block has at most the second number of
/// bytes.
constexpr std::uint64_t read_gap = 4096;
constexpr std::uint64_t read_block = std::uint64_t{1} << 20;

}  // namespace

OldValues::OldValues(const ckpt::Reader& reader, const Population& population)
    : reader_(reader), population_(population) {}

void OldValues::read_elements(const Target& target, std::uint64_t first, std::uint64_t count) {
  if (!target.stored) return reader_.read_elements(*reader_.find(target.path), first, count, block_.data());
  if (!file_) file_.emplace(reader_.files(), O_RDONLY);
  for (std::uint64_t done = 0; done < count;) {
    const StoredBytes::Place place = target.stored->place(first + done);
    const std::uint64_t piece = std::min(place.run, count - done);
    file_->read(block_.data() + done, piece, place.offset);
    done += piece;
  }
}

void OldValues::read(const std::vector<Sample>& batch) {
  order_.resize(batch.size());
  std::iota(order_.begin(), order_.end(), 0U);
  flat_.resize(batch.size());
  patterns_.resize(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) flat_[i] = population_.flat_element(batch[i].where);
  if (!std::is_sorted(flat_.begin(), flat_.end())) {
    std::sort(order_.begin(), order_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return flat_[a] < flat_[b]; });
  }
  for (std::size_t i = 0; i < order_.size();) {
    const Target& target = *batch[order_[i]].where.target;
    const std::uint64_t width = target.format.bytes;
    const std::uint64_t first = batch[order_[i]].where.element;
    std::uint64_t last = first;
    std::size_t end = i;
    for (; end < order_.size(); ++end) {
      const Population::Location& next = batch[order_[end]].where;
      if (next.target != &target || (next.element - last) * width > read_gap) break;
      if ((next.element - first + 1) * width > read_block) break;
      last = next.element;
    }
    block_.resize((last - first + 1) * width);
    read_elements(target, first, last - first + 1);
    NumberFormat in_memory = target.format;
    in_memory.order = ByteOrder::little;  // read_elements has converted the byte order
    for (; i < end; ++i) {
      const std::uint64_t element = batch[order_[i]].where.element;
      patterns_[order_[i]] = load_pattern(in_memory, block_.data() + (element - first) * width);
    }
  }
}

}  // namespace bitrift::inject
