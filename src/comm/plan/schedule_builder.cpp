#include "comm/plan/schedule_builder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace bitrift::comm {
namespace {

constexpr std::size_t most_uses = std::size_t{1} << 26U;

}  // namespace

ScheduleBuilder::ScheduleBuilder(const Topology& topology, Scheme scheme, std::uint32_t chunks)
    : schedule_(topology, scheme, chunks) {
  const std::size_t count = static_cast<std::size_t>(topology.chips()) * chunks;
  if (chunks > most_chunks || count > most_uses) {
    fail(ErrorCode::unsupported, "{}: {} chunks on {} chips are too many; use a smaller mesh or fewer chunks",
         name_of(scheme), chunks, topology.chips());
  }
  uses_.resize(count);
}

void ScheduleBuilder::append(const Send& send) {
  std::vector<std::uint32_t> after;
  const auto number = static_cast<std::uint32_t>(schedule_.size());
  Uses& source = uses(send.from, send.chunk);
  Uses& target = uses(send.to, send.chunk);
  if (source.write != none_) after.push_back(source.write);
  if (target.reader == none_ && target.write != none_) after.push_back(target.write);
  for (std::uint32_t reader = target.reader; reader != none_; reader = reader_before_[reader])
    after.push_back(reader);
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  schedule_.append(send, after);
  reader_before_.push_back(std::exchange(source.reader, number));
  target = {number, none_};
}

Schedule ScheduleBuilder::in_steps() const {
  const std::size_t count = schedule_.size();
  std::vector<std::uint32_t> step(count, 0), rest(count, 0), order(count), place(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::uint32_t before : schedule_.after(i)) step[i] = std::max(step[i], step[before] + 1);
  }
  for (std::size_t i = count; i-- > 0;) {
    for (const std::uint32_t before : schedule_.after(i)) rest[before] = std::max(rest[before], rest[i] + 1);
  }
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return step[a] != step[b] ? step[a] < step[b] : rest[a] > rest[b];
  });
  for (std::size_t i = 0; i < count; ++i) place[order[i]] = static_cast<std::uint32_t>(i);
  Schedule sorted(schedule_.topology(), schedule_.scheme(), schedule_.chunks());
  std::vector<std::uint32_t> after;
  for (const std::uint32_t send : order) {
    after.clear();
    for (const std::uint32_t before : schedule_.after(send)) after.push_back(place[before]);
    std::sort(after.begin(), after.end());
    sorted.append(schedule_.send(send), after);
  }
  return sorted;
}

}  // namespace bitrift::comm
