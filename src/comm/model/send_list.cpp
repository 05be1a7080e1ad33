#include "comm/model/send_list.h"

#include <limits>

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

}  // namespace bitrift::comm
