#include "train/recover/snapshots.h"

#include <algorithm>
#include <climits>

#include "core/error.h"

namespace bitrift::train {
namespace {

constexpr int size_tag = 3, text_tag = 4;
constexpr std::size_t part_bytes = std::size_t{1} << 28;  // one MPI call carries less than 2 GiB
constexpr std::size_t generations = 2;

// Ranks in a ring: all send and receive at once.
std::string exchange_in_ring(const Layout& layout, const std::string& mine) {
  const mpi::Communicator& world = layout.world;
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  const std::uint64_t size = mine.size();
  std::uint64_t theirs = 0;
  mpi::Request sent = world.start_send(&size, sizeof size, next, size_tag);
  world.receive(&theirs, sizeof theirs, previous, size_tag);
  sent.wait();
  std::string text(theirs, '\0');
  for (std::size_t at = 0; at < std::max(mine.size(), text.size()); at += part_bytes) {
    std::optional<mpi::Request> out, in;
    if (at < text.size())
      in.emplace(
          world.start_receive(text.data() + at, std::min(part_bytes, text.size() - at), previous, text_tag));
    if (at < mine.size())
      out.emplace(world.start_send(mine.data() + at, std::min(part_bytes, mine.size() - at), next, text_tag));
    if (in) in->wait();
    if (out) out->wait();
  }
  return text;
}

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

std::string packed(const Snapshot& snapshot) {
  const HeldState& held = snapshot.held;
  const record::Json place = {held.at.commits, name_of(held.at.next), held.stage, held.stages, held.replica};
  return packed(
      StateCopy{{"held", place.dump()}, {"ledger", snapshot.ledger}, {"state", packed(snapshot.state)}});
}

Snapshot snapshot_from(const std::string& text) {
  const StateCopy parts = unpacked(text);
  const record::Json place = record::Json::parse(parts.at("held"));
  return {{{place.at(0), parse_named<Next>(place.at(1).get<std::string>())},
           place.at(2),
           place.at(3),
           place.at(4)},
          parts.at("ledger"),
          unpacked(parts.at("state"))};
}

void Snapshots::take(Snapshot mine, const Layout& layout) {
  std::vector<Snapshot> fresh;
  if (layout.world.size() > 1) {
    const std::string theirs = exchange_in_ring(layout, packed(mine));
    fresh.push_back(snapshot_from(theirs));
  }
  fresh.push_back(std::move(mine));
  for (Snapshot& one : fresh) keep(std::move(one));
  std::vector<Position> positions;
  for (const Snapshot& one : kept_) {
    if (std::find(positions.begin(), positions.end(), one.held.at) == positions.end())
      positions.push_back(one.held.at);
  }
  std::sort(positions.begin(), positions.end(), std::greater<>());
  if (positions.size() <= generations) return;
  std::erase_if(kept_, [&](const Snapshot& old) { return old.held.at < positions[generations - 1]; });
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
