#include "comm/plan/reduction.h"

#include "comm/plan/schedule_builder.h"
#include "core/error.h"

namespace bitrift::comm {

Reduction::Reduction(const Topology& topology, Scheme scheme, std::uint32_t chunks)
    : topology_(topology), scheme_(scheme), chunks_(chunks) {
  topology.require_connected();
  if (chunks > most_chunks) {
    fail(ErrorCode::unsupported, "{}: the mesh needs {} chunks; at most {} are possible", name_of(scheme),
         chunks, most_chunks);
  }
  holds_.assign(static_cast<std::size_t>(topology.chips()) * chunks, false);
  for (const int chip : topology.live()) {
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) holds_[at(chip, chunk)] = true;
  }
}

void Reduction::move(int from, int to, std::uint32_t chunk) {
  if (!holds_[at(from, chunk)]) return;
  if (moves_.size() == most_sends / 2) {
    fail(ErrorCode::unsupported, "{}: the mesh needs more than {} sends; use a smaller one", name_of(scheme_),
         most_sends);
  }
  const SendKind kind = holds_[at(to, chunk)] ? SendKind::add : SendKind::copy;
  moves_.push_back({static_cast<std::uint16_t>(from), static_cast<std::uint16_t>(to), chunk, kind});
  holds_[at(from, chunk)] = false;
  holds_[at(to, chunk)] = true;
}

void Reduction::move_along(const std::vector<int>& path, std::uint32_t chunk) {
  for (std::size_t i = 1; i < path.size(); ++i) move(path[i - 1], path[i], chunk);
}

Schedule Reduction::allreduce() const {
  std::vector<int> holders(chunks_, 0);
  for (const int chip : topology_.live()) {
    for (std::uint32_t chunk = 0; chunk < chunks_; ++chunk) holders[chunk] += holds_[at(chip, chunk)] ? 1 : 0;
  }
  for (std::uint32_t chunk = 0; chunk < chunks_; ++chunk) {
    if (holders[chunk] != 1)
      fail(ErrorCode::internal, "{}: {} chips hold parts of chunk {}", name_of(scheme_), holders[chunk],
           chunk);
  }
  ScheduleBuilder builder(topology_, scheme_, chunks_);
  for (const Send& move : moves_) builder.append(move);
  // A chip that received a part handed it over later, or holds the sum: played backwards, it has the sum
  // before it must pass it to the chip from which the part came.
  std::vector<bool> done = holds_;
  for (std::size_t i = moves_.size(); i-- > 0;) {
    const Send& move = moves_[i];
    if (done[at(move.from, move.chunk)]) continue;
    done[at(move.from, move.chunk)] = true;
    builder.append({move.to, move.from, move.chunk, SendKind::copy});
  }
  return builder.in_steps();
}

}  // namespace bitrift::comm
