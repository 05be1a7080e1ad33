#include "train/recover/snapshots.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace bitrift::train {
namespace {

constexpr int size_tag = 3, head_tag = 4, text_tag = 5;
constexpr std::size_t part_bytes = std::size_t{1} << 28;  // one MPI call carries less than 2 GiB
constexpr std::size_t generations = 2;

// Everything in a snapshot except its state.
std::string head_of(const Snapshot& snapshot) {
  const HeldState& held = snapshot.held;
  const record::Json place = {held.at.commits, name_of(held.at.next), held.stage, held.stages, held.replica};
  return packed(StateCopy{{"held", place.dump()}, {"ledger", snapshot.ledger}});
}

Snapshot snapshot_from(const std::string& head, std::string state) {
  const StateCopy parts = unpacked(head);
  const record::Json place = record::Json::parse(parts.at("held"));
  return {{{place.at(0), parse_named<Next>(place.at(1).get<std::string>())},
           place.at(2),
           place.at(3),
           place.at(4)},
          parts.at("ledger"),
          std::move(state)};
}

// The state that a rank sends to the next one and receives from the previous one.
class Ring {
 public:
  explicit Ring(const mpi::Communicator& world)
      : world_(world),
        next_((world.rank() + 1) % world.size()),
        previous_((world.rank() + world.size() - 1) % world.size()) {}

  void exchange(const void* out, std::size_t out_size, void* in, std::size_t in_size, int tag) const {
    for (std::size_t at = 0; at < std::max(out_size, in_size); at += part_bytes) {
      std::optional<mpi::Request> sent, received;
      if (at < in_size)
        received.emplace(world_.start_receive(static_cast<char*>(in) + at, std::min(part_bytes, in_size - at),
                                              previous_, tag));
      if (at < out_size)
        sent.emplace(world_.start_send(static_cast<const char*>(out) + at,
                                       std::min(part_bytes, out_size - at), next_, tag));
      if (received) received->wait();
      if (sent) sent->wait();
    }
  }

 private:
  const mpi::Communicator& world_;
  int next_, previous_;
};

}  // namespace

void send_text(const mpi::Communicator& communicator, const std::string& text, int to) {
  const std::uint64_t size = text.size();
  communicator.send(&size, sizeof size, to, size_tag);
  for (std::size_t at = 0; at < text.size(); at += part_bytes)
    communicator.send(text.data() + at, std::min(part_bytes, text.size() - at), to, text_tag);
}

std::string receive_text(const mpi::Communicator& communicator, int from) {
  std::uint64_t size = 0;
  communicator.receive(&size, sizeof size, from, size_tag);
  std::string text(size, '\0');
  for (std::size_t at = 0; at < text.size(); at += part_bytes)
    communicator.receive(text.data() + at, std::min(part_bytes, text.size() - at), from, text_tag);
  return text;
}

std::string Snapshots::buffer() {
  if (buffers_.empty()) return {};
  std::string one = std::move(buffers_.back());
  buffers_.pop_back();
  return one;
}

Snapshot Snapshots::exchange_in_ring(const Snapshot& mine, const mpi::Communicator& world) {
  const Ring ring(world);
  const std::string head = head_of(mine);
  const std::array<std::uint64_t, 2> sizes = {head.size(), mine.state.size()};
  std::array<std::uint64_t, 2> their_sizes = {};
  ring.exchange(sizes.data(), sizeof sizes, their_sizes.data(), sizeof their_sizes, size_tag);
  std::string their_head(their_sizes[0], '\0'), state = buffer();
  state.resize(their_sizes[1]);
  ring.exchange(head.data(), head.size(), their_head.data(), their_head.size(), head_tag);
  ring.exchange(mine.state.data(), mine.state.size(), state.data(), state.size(), text_tag);
  return snapshot_from(their_head, std::move(state));
}

void Snapshots::take(Snapshot mine, const Layout& layout) {
  if (layout.world.size() > 1) keep(exchange_in_ring(mine, layout.world));
  keep(std::move(mine));
  std::vector<Position> positions;
  for (const Snapshot& one : kept_) {
    if (std::find(positions.begin(), positions.end(), one.held.at) == positions.end())
      positions.push_back(one.held.at);
  }
  std::sort(positions.begin(), positions.end(), std::greater<>());
  if (positions.size() <= generations) return;
  std::erase_if(kept_, [&](Snapshot& old) {
    const bool outdated = old.held.at < positions[generations - 1];
    if (outdated) buffers_.push_back(std::move(old.state));
    return outdated;
  });
}

void Snapshots::keep(Snapshot one) {
  std::erase_if(kept_, [&](const Snapshot& old) { return old.held == one.held; });
  kept_.push_front(std::move(one));
}

std::vector<HeldState> Snapshots::held() const {
  std::vector<HeldState> all;
  for (const Snapshot& one : kept_) all.push_back(one.held);
  return all;
}

const Snapshot* Snapshots::find(const Position& at, int stage, int stages, int replica) const {
  const Snapshot* any = nullptr;
  for (const Snapshot& one : kept_) {
    if (one.held.at != at || one.held.stage != stage || one.held.stages != stages) continue;
    if (one.held.replica == replica) return &one;
    any = &one;
  }
  return any;
}

}  // namespace bitrift::train
