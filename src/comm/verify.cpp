#include "comm/verify.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/contributors.h"
#include "comm/wait_order.h"

namespace bitrift::comm {
namespace {

std::optional<CounterExample> wrong_link(const Schedule& schedule) {
  const Topology& mesh = schedule.topology();
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    const Send& send = schedule.send(i);
    for (const int chip : {send.from, send.to}) {
      if (!mesh.alive(chip))
        return CounterExample{Flaw::dead_chip,
                              fmt::format("{}: {} is dead", schedule.name(i), mesh.name(chip))};
    }
    if (!mesh.linked(send.from, send.to)) {
      return CounterExample{Flaw::no_link,
                            fmt::format("{}: no live link leads from {} to {}", schedule.name(i),
                                        mesh.name(send.from), mesh.name(send.to))};
    }
  }
  return std::nullopt;
}

std::optional<CounterExample> unseen_wait(const Schedule& schedule) {
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    const Send& send = schedule.send(i);
    for (const std::uint32_t before : schedule.after(i)) {
      const Send& other = schedule.send(before);
      if (other.from == send.from || other.from == send.to || other.to == send.from || other.to == send.to)
        continue;
      return CounterExample{
          Flaw::unseen_wait,
          fmt::format("{} waits for {}, of which neither of its chips can know when it ends",
                      schedule.name(i), schedule.name(before))};
    }
  }
  return std::nullopt;
}

/// The sends of each chunk, each after those that must come first.
class ByChunk {
 public:
  ByChunk(const Schedule& schedule, const std::vector<std::uint32_t>& order)
      : begin_(schedule.chunks() + std::size_t{1}, 0), sends_(schedule.size()) {
    for (const Send& send : schedule.sends()) ++begin_[send.chunk + std::size_t{1}];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
    for (const std::uint32_t send : order) sends_[next[schedule.send(send).chunk]++] = send;
  }
  [[nodiscard]] std::span<const std::uint32_t> of(std::uint32_t chunk) const {
    return std::span(sends_).subspan(begin_[chunk], begin_[chunk + 1] - begin_[chunk]);
  }

 private:
  std::vector<std::uint32_t> begin_, sends_;
};

/// Whether the waits order the parts of sends that use one chunk at one chip. Each write must come after the
/// write before it and the reads between them, and each read after the write before it; everything else
/// follows.
class Races {
 public:
  Races(const Schedule& schedule, WaitOrder& waits)
      : schedule_(schedule), waits_(waits), uses_(static_cast<std::size_t>(schedule.topology().chips())) {}

  std::optional<CounterExample> look(std::span<const std::uint32_t> sends) {
    for (const std::uint32_t send : sends) {
      const Send& one = schedule_.send(send);
      if (auto found = read(send, uses_[one.from])) return found;
      if (auto found = write(send, uses_[one.to])) return found;
    }
    for (const std::uint32_t send : sends) {
      uses_[schedule_.send(send).from] = {};
      uses_[schedule_.send(send).to] = {};
    }
    return std::nullopt;
  }

 private:
  static constexpr std::uint32_t no_send_ = ~0U;
  struct Uses {
    std::uint32_t write = no_send_;
    std::vector<std::uint32_t> reads = {};  // since then
  };

  std::optional<CounterExample> read(std::uint32_t send, Uses& uses) {
    if (uses.write != no_send_ && !waits_.ordered(uses.write, Part::write, send, Part::read))
      return race(uses.write, "writes", send, "reads", schedule_.send(send).from);
    uses.reads.push_back(send);
    return std::nullopt;
  }
  std::optional<CounterExample> write(std::uint32_t send, Uses& uses) {
    const int chip = schedule_.send(send).to;
    for (const std::uint32_t reader : uses.reads) {
      if (!waits_.ordered(reader, Part::read, send, Part::write))
        return race(reader, "reads", send, "writes", chip);
    }
    if (uses.reads.empty() && uses.write != no_send_ &&
        !waits_.ordered(uses.write, Part::write, send, Part::write))
      return race(uses.write, "writes", send, "writes", chip);
    uses = {send, {}};
    return std::nullopt;
  }
  CounterExample race(std::uint32_t first, const char* does, std::uint32_t second, const char* also_does,
                      int chip) {
    return {Flaw::race, fmt::format("chunk {} at {}: {} {} it, {} {} it, and no waits order the two",
                                    schedule_.send(first).chunk, schedule_.topology().name(chip),
                                    schedule_.name(first), does, schedule_.name(second), also_does)};
  }

  const Schedule& schedule_;
  WaitOrder& waits_;
  std::vector<Uses> uses_;  // of each chip
};

std::optional<CounterExample> wrong_sum(const Schedule& schedule, std::uint32_t chunk,
                                        std::span<const std::uint32_t> sends, Contributors& held) {
  held.begin();
  for (const std::uint32_t send : sends) {
    const Send& one = schedule.send(send);
    one.kind == SendKind::add ? held.add(one.from, one.to) : held.copy(one.from, one.to);
  }
  const auto wrong = held.wrong();
  if (!wrong) return std::nullopt;
  const auto [chip, gradient] = *wrong;
  const bool missing = held.count(chip, gradient) == 0;
  return CounterExample{missing ? Flaw::missing : Flaw::repeated,
                        fmt::format("chunk {} at {}: at the end, the gradient of {} is {}", chunk,
                                    schedule.topology().name(chip), schedule.topology().name(gradient),
                                    missing ? "not in it" : "in it more than once")};
}

std::size_t busiest_link(const Schedule& schedule) {
  std::vector<Link> links = schedule.topology().links();
  std::vector<std::size_t> sends(links.size(), 0);
  std::size_t most = 0;
  for (const Send& send : schedule.sends()) {
    const auto link = std::ranges::lower_bound(links, Link{send.from, send.to}) - links.begin();
    most = std::max(most, ++sends[static_cast<std::size_t>(link)]);
  }
  return most;
}

}  // namespace

Verdict verify(const Schedule& schedule) {
  schedule.require_sound();
  if (auto found = wrong_link(schedule)) return {std::move(found), {}};
  if (auto found = unseen_wait(schedule)) return {std::move(found), {}};
  WaitOrder waits(schedule);
  if (waits.cycle()) return {CounterExample{Flaw::cycle, *waits.cycle()}, {}};
  const ByChunk chunks(schedule, waits.order());
  Races races(schedule, waits);
  Contributors held(schedule.topology());
  Verdict verdict;
  verdict.proof = {schedule.topology().live().size(),
                   schedule.size(),
                   schedule.chunks(),
                   waits.steps(),
                   busiest_link(schedule),
                   schedule.topology().links().size(),
                   true};
  for (std::uint32_t chunk = 0; chunk < schedule.chunks(); ++chunk) {
    const auto sends = chunks.of(chunk);
    if (auto found = races.look(sends)) return {std::move(found), {}};
    if (auto found = wrong_sum(schedule, chunk, sends, held)) return {std::move(found), {}};
    verdict.proof.one_order = verdict.proof.one_order && held.one_order();
  }
  return verdict;
}

}  // namespace bitrift::comm
