#include "core/deflate/splice.h"

#include <algorithm>

namespace bitrift::deflate {
namespace {

bool by_place(const Splice& a, const Splice& b) { return a.first < b.first; }

}  // namespace

void SpliceList::start(std::int64_t growth) {
  forced_growth_ = growth;
  moved_ = growth != 0;
  asked_ = 0;
  joins_ = false;
  reached_.reset();
  reached_.set(static_cast<std::size_t>(farthest));
}

bool SpliceList::reachable(std::int64_t growth) const noexcept {
  const std::int64_t sum = growth - forced_growth_;
  return sum >= -farthest && sum <= farthest && reached_[static_cast<std::size_t>(sum + farthest)];
}

/// The replacements that become possible from one of `before`.
std::bitset<SpliceList::sums> SpliceList::sums_with(std::int64_t growth,
                                                    const std::bitset<sums>& before) const noexcept {
  return (growth < 0 ? before >> static_cast<std::size_t>(-growth)
                     : before << static_cast<std::size_t>(growth)) &
         ~reached_;
}

bool SpliceList::wants_form(std::int64_t growth) noexcept {
  ++asked_;
  return wants_forms() && sums_with(growth, reached_).any();
}

void SpliceList::force(const Splice& splice, std::span<const Splice> forms) {
  // Adjacent replacements are joined.
  if (joins_ && forms.empty() && forced_.back().end == splice.first &&
      forced_.back().new_end == splice.new_first) {
    forced_.back().end = splice.end;
    forced_.back().new_end = splice.new_end;
  } else {
    forced_.push_back(splice);
  }
  joins_ = forms.empty();
  forced_growth_ += splice.growth();
  moved_ = true;
  add_forms(forms, splice.growth(), forced_.size() - 1);
  take_if_still();
}

void SpliceList::offer(std::span<const Splice> forms) {
  add_forms(forms, 0, none);
  take_if_still();
}

void SpliceList::add_forms(std::span<const Splice> forms, std::int64_t kept_growth, std::size_t instead_of) {
  const std::bitset<sums> before = reached_;
  for (const Splice& form : forms) {
    const std::int64_t growth = form.growth() - kept_growth;
    const std::bitset<sums> found = sums_with(growth, before);
    for (std::size_t sum = found._Find_first(); sum < sums; sum = found._Find_next(sum)) {
      steps_[sum] = {form, growth, instead_of};
    }
    reached_ |= found;
  }
}

void SpliceList::release() {
  held_ = false;
  take_if_still();
}

void SpliceList::take_if_still() {
  if (!held_ && moved_ && reachable(0)) take(0);
}

/// Makes the choice with that growth, and starts over.
void SpliceList::take(std::int64_t growth) {
  for (std::int64_t sum = growth - forced_growth_; sum != 0;) {
    const Step& step = steps_[static_cast<std::size_t>(sum + farthest)];
    if (step.instead_of == none) {
      forced_.push_back(step.form);
    } else {
      forced_[step.instead_of] = step.form;
    }
    sum -= step.growth;
  }
  std::sort(forced_.begin(), forced_.end(), by_place);
  settled_.insert(settled_.end(), forced_.begin(), forced_.end());
  forced_.clear();
  start(growth);
}

void SpliceList::settle(std::uint64_t first, unsigned padding) {
  if (!moved_) return;
  const auto room = static_cast<std::int64_t>(padding);
  std::int64_t best = forced_growth_;
  for (std::int64_t sum = -farthest; sum <= farthest && (best > room || best <= room - 8); ++sum) {
    const std::int64_t growth = forced_growth_ + sum;
    if (reachable(growth) && (best > room ? growth < best : growth > best && growth <= room)) best = growth;
  }
  take(best);
  const auto left = static_cast<unsigned>((room - best) & 7);
  const std::uint64_t new_first = bits_.bits();
  bits_.put(0, left);
  settled_.push_back({first, first + padding, new_first, new_first + left});
  start(best + static_cast<std::int64_t>(left) - room);
}

Bytes SpliceList::apply(std::span<const std::uint8_t> stream) const {
  BitWriter out;
  std::uint64_t done = 0;
  for (const Splice& splice : settled_) {
    out.copy(stream, done, splice.first);
    out.copy(bits_.bytes(), splice.new_first, splice.new_end);
    done = splice.end;
  }
  out.copy(stream, done, 8 * stream.size());
  return out.take();
}

}  // namespace bitrift::deflate
