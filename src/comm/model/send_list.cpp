#include "comm/model/send_list.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/error.h"

namespace bitrift::comm {

SendId SendList::add(int from, int to, double bytes, std::span<const SendId> after) {
  constexpr std::size_t most = std::numeric_limits<SendId>::max() - 1;
  if (size() >= most || after.size() > most - after_.size())
    fail(ErrorCode::unsupported, "a list of sends holds at most {} sends and as many waits: use fewer chunks",
         most);
  from_.push_back(from);
  to_.push_back(to);
  bytes_.push_back(bytes);
  after_.insert(after_.end(), after.begin(), after.end());
  first_.push_back(static_cast<std::uint32_t>(after_.size()));
  return static_cast<SendId>(from_.size() - 1);
}

void SendList::reserve(std::size_t sends, std::size_t waits) {
  from_.reserve(sends);
  to_.reserve(sends);
  bytes_.reserve(sends);
  first_.reserve(sends + 1);
  after_.reserve(waits);
}

std::vector<SendId> order_of_start(const std::vector<double>& start) {
  std::vector<SendId> order(start.size());
  std::iota(order.begin(), order.end(), SendId{0});
  std::stable_sort(order.begin(), order.end(), [&](SendId a, SendId b) { return start[a] < start[b]; });
  return order;
}

SendList reordered(const SendList& sends, const std::vector<SendId>& order) {
  std::vector<SendId> place(order.size()), waits;
  for (SendId i = 0; i < order.size(); ++i) place[order[i]] = i;
  SendList out;
  out.reserve(order.size(), sends.waits());
  for (const SendId send : order) {
    waits.clear();
    for (const SendId before : sends.after(send)) waits.push_back(place[before]);
    out.add(sends.from(send), sends.to(send), sends.bytes(send), waits);
  }
  return out;
}

}  // namespace bitrift::comm
