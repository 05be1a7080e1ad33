#include "comm/wait_order.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace bitrift::comm {
namespace {

constexpr std::uint64_t most_search_steps = std::uint64_t{1} << 30U;
constexpr std::size_t most_named = 6;

std::uint64_t part_number(std::uint32_t send, Part part) {
  return 2 * std::uint64_t{send} + static_cast<std::uint64_t>(part);
}

}  // namespace

WaitOrder::WaitOrder(const Schedule& schedule) : schedule_(schedule) {
  find_order();
  if (!cycle_) find_steps();
}

void WaitOrder::find_order() {
  const std::size_t count = schedule_.size();
  std::vector<std::uint32_t> missing(count);  // waits that are not in order_ yet
  std::vector<std::uint32_t> begin(count + 1, 0);
  bool listed = true;
  for (std::size_t i = 0; i < count; ++i) {
    missing[i] = static_cast<std::uint32_t>(schedule_.after(i).size());
    for (const std::uint32_t before : schedule_.after(i)) {
      listed = listed && before < i;
      ++begin[before + 1];
    }
  }
  order_.resize(count);
  position_.resize(count);
  std::iota(order_.begin(), order_.end(), 0U);
  std::iota(position_.begin(), position_.end(), 0U);
  if (listed) return;
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<std::uint32_t> waiting(begin.back());  // the sends that wait for each, one after another
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::uint32_t before : schedule_.after(i))
      waiting[next[before]++] = static_cast<std::uint32_t>(i);
  }
  order_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    if (missing[i] == 0) order_.push_back(static_cast<std::uint32_t>(i));
  }
  for (std::size_t done = 0; done < order_.size(); ++done) {
    const std::uint32_t send = order_[done];
    position_[send] = static_cast<std::uint32_t>(done);
    for (std::uint32_t k = begin[send]; k < begin[send + 1]; ++k) {
      if (--missing[waiting[k]] == 0) order_.push_back(waiting[k]);
    }
  }
  if (order_.size() < count) find_cycle(missing);
}

void WaitOrder::find_cycle(const std::vector<std::uint32_t>& missing) {
  const auto stuck = [&](std::uint32_t send) { return missing[send] != 0; };
  // Every stuck send waits for a stuck one, so walking back must reach one of them again.
  std::vector<std::uint32_t> walk;
  std::vector<bool> met(missing.size(), false);
  auto at = static_cast<std::uint32_t>(std::ranges::find_if(missing, [](auto n) { return n != 0; }) -
                                       missing.begin());
  while (!met[at]) {
    met[at] = true;
    walk.push_back(at);
    const auto after = schedule_.after(at);
    at = *std::ranges::find_if(after, stuck);
  }
  walk.erase(walk.begin(), std::ranges::find(walk, at));
  std::string text = schedule_.name(walk.front());
  for (std::size_t i = 1; i < walk.size() && i < most_named; ++i)
    text += fmt::format("{} waits for send {}", i == 1 ? "" : ", which", walk[i]);
  if (walk.size() > most_named) text += fmt::format(", and so on through {} sends", walk.size());
  cycle_ = text + fmt::format("{} waits for send {}", walk.size() == 1 ? "" : ", which", walk.front());
}

void WaitOrder::find_steps() {
  std::vector<std::uint32_t> depth(schedule_.size(), 0);
  for (const std::uint32_t send : order_) {
    std::uint32_t most = 0;
    for (const std::uint32_t before : schedule_.after(send)) most = std::max(most, depth[before]);
    depth[send] = most + 1;
    steps_ = std::max<std::size_t>(steps_, depth[send]);
  }
}

bool WaitOrder::ordered(std::uint32_t first, Part first_part, std::uint32_t second, Part second_part) {
  // Both parts belong to one chip, which waits for its own parts of the sends in `after`.
  const auto after = schedule_.after(second);
  searched_ += after.size();
  if (std::ranges::find(after, first) != after.end()) return true;
  return search(first, first_part, second, second_part);
}

// Walks back from the second part. The parts that end before this one begins: those that its chip waits for
// and, for a write, those that end before the read of the same send begins.
bool WaitOrder::search(std::uint32_t first, Part first_part, std::uint32_t second, Part second_part) {
  if (seen_.empty()) seen_.assign(2 * schedule_.size(), 0);
  ++search_;
  const std::uint64_t goal = part_number(first, first_part);
  const auto reach = [&](std::uint32_t send, Part part) {
    const std::uint64_t number = part_number(send, part);
    if (position_[send] < position_[first] || seen_[number] == search_) return;
    seen_[number] = search_;
    open_.push_back(number);
  };
  open_.clear();
  reach(second, second_part);
  while (!open_.empty()) {
    const std::uint64_t number = open_.back();
    open_.pop_back();
    if (number == goal) return true;
    if (++searched_ > most_search_steps) {
      fail(
          ErrorCode::unsupported,
          "whether {} ends before {} begins takes too long to decide; let sends that share a chunk at a chip "
          "wait for each other directly",
          schedule_.name(first), schedule_.name(second));
    }
    const auto send = static_cast<std::uint32_t>(number / 2);
    const auto part = static_cast<Part>(number % 2);
    if (part == Part::write) reach(send, Part::read);
    const int chip = part == Part::read ? schedule_.send(send).from : schedule_.send(send).to;
    for (const std::uint32_t before : schedule_.after(send)) {
      if (schedule_.send(before).from == chip) reach(before, Part::read);
      if (schedule_.send(before).to == chip) reach(before, Part::write);
    }
    searched_ += schedule_.after(send).size();
  }
  return false;
}

}  // namespace bitrift::comm
