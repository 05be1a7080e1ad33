#include "comm/mesh_schedule.h"

#include "core/error.h"

namespace bitrift::comm {

void Schedule::append(const Send& send, std::span<const std::uint32_t> after) {
  if (sends_.size() == most_sends || after.size() > most_waits - after_.size()) {
    fail(ErrorCode::unsupported,
         "the schedule needs more than {} sends or {} waits; use a smaller mesh or fewer chunks", most_sends,
         most_waits);
  }
  sends_.push_back(send);
  after_.insert(after_.end(), after.begin(), after.end());
  after_end_.push_back(static_cast<std::uint32_t>(after_.size()));
}

std::string Schedule::name(std::size_t index) const {
  const Send& one = sends_[index];
  return fmt::format("send {} (chip {} to chip {}, chunk {}, {})", index, one.from, one.to, one.chunk,
                     name_of(one.kind));
}

void Schedule::require_sound() const {
  topology_.require_connected();
  if (chunks_ == 0 || chunks_ > most_chunks)
    fail(ErrorCode::bad_input, "a schedule with {} chunks; expected 1 to {}", chunks_, most_chunks);
  for (std::size_t i = 0; i < size(); ++i) {
    const Send& one = sends_[i];
    if (one.from >= topology_.chips() || one.to >= topology_.chips() || one.from == one.to) {
      fail(ErrorCode::bad_input, "{}: expected two different chips from 0 to {}", name(i),
           topology_.chips() - 1);
    }
    if (one.chunk >= chunks_)
      fail(ErrorCode::bad_input, "{}: expected a chunk from 0 to {}", name(i), chunks_ - 1);
    for (const std::uint32_t before : after(i)) {
      if (before >= size())
        fail(ErrorCode::bad_input, "{}: waits for send {}; there are {}", name(i), before, size());
    }
  }
}

}  // namespace bitrift::comm
