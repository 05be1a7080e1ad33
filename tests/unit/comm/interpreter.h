// Runs a schedule chip by chip with numbers, in random orders. Shares no code with the proof: it has its own
// idea of the mesh, of waits and of what a send does.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "comm/mesh_schedule.h"

namespace bitrift::tests {

inline bool next_to_each_other(const comm::Topology& mesh, int one, int other) {
  const auto near = [](int a, int b, int size, bool wrap) {
    return std::abs(a - b) == 1 || (wrap && std::abs(a - b) == size - 1);
  };
  const int columns = mesh.columns();
  const int r1 = one / columns, c1 = one % columns, r2 = other / columns, c2 = other % columns;
  const bool rows = mesh.wrap() == comm::Wrap::rows || mesh.wrap() == comm::Wrap::both;
  const bool down = mesh.wrap() == comm::Wrap::columns || mesh.wrap() == comm::Wrap::both;
  const bool flat = r1 == r2 && c1 != c2 && near(c1, c2, columns, rows);
  const bool upright = c1 == c2 && r1 != r2 && near(r1, r2, mesh.rows(), down);
  if (!flat && !upright) return false;
  for (const auto& [a, b] : mesh.dead_links()) {
    if ((a == one && b == other) || (a == other && b == one)) return false;
  }
  for (const int chip : mesh.dead()) {
    if (chip == one || chip == other) return false;
  }
  return true;
}

/// What goes wrong in one run, whose order is drawn from `seed`; "" if every live chip has the sum of all.
/// With an even seed there is room for any number of messages on their way, with an odd one for none.
inline std::string run_schedule(const comm::Schedule& plan, std::uint64_t seed) {
  const comm::Topology& mesh = plan.topology();
  std::mt19937_64 random(seed);
  const bool room = seed % 2 == 0;
  const std::size_t count = plan.size(), chunks = plan.chunks();
  std::vector<std::vector<std::uint64_t>> buffer(static_cast<std::size_t>(mesh.chips()),
                                                 std::vector<std::uint64_t>(chunks, 0));
  std::vector<std::uint64_t> sum(chunks, 0);
  for (const int chip : mesh.live()) {
    for (std::size_t chunk = 0; chunk < chunks; ++chunk)
      sum[chunk] += buffer[static_cast<std::size_t>(chip)][chunk] = random();
  }
  for (const comm::Send& send : plan.sends()) {
    if (send.from == send.to || !next_to_each_other(mesh, send.from, send.to)) return "no link";
  }
  // Part 2i is the read of send i, part 2i + 1 its write.
  std::vector<std::vector<std::size_t>> then(2 * count);
  std::vector<int> missing(2 * count, 0);
  const auto wait = [&](std::size_t first, std::size_t second) {
    then[first].push_back(second);
    ++missing[second];
  };
  for (std::size_t i = 0; i < count; ++i) {
    wait(2 * i, 2 * i + 1);
    const std::pair<int, std::size_t> mine[]{{plan.send(i).from, 2 * i}, {plan.send(i).to, 2 * i + 1}};
    for (const std::size_t a : plan.after(i)) {
      const std::pair<int, std::size_t> others[]{{plan.send(a).from, 2 * a}, {plan.send(a).to, 2 * a + 1}};
      for (const auto& [chip, part] : mine) {
        for (const auto& [other_chip, other_part] : others) {
          if (chip == other_chip) wait(other_part, part);
          // Without room for messages on their way, a read lasts until the other chip can write.
          if (chip == other_chip && !room && part == 2 * i + 1) wait(other_part, 2 * i);
        }
      }
    }
  }
  std::vector<std::uint64_t> urgency(2 * count), message(count);
  for (auto& one : urgency) one = random();
  std::priority_queue<std::pair<std::uint64_t, std::size_t>> ready;
  for (std::size_t part = 0; part < 2 * count; ++part) {
    if (missing[part] == 0) ready.emplace(urgency[part], part);
  }
  std::size_t done = 0;
  for (; !ready.empty(); ++done) {
    const std::size_t part = ready.top().second;
    ready.pop();
    const comm::Send& send = plan.send(part / 2);
    if (part % 2 == 0) {
      message[part / 2] = buffer[send.from][send.chunk];
    } else if (send.kind == comm::SendKind::add) {
      buffer[send.to][send.chunk] += message[part / 2];
    } else {
      buffer[send.to][send.chunk] = message[part / 2];
    }
    for (const std::size_t next : then[part]) {
      if (--missing[next] == 0) ready.emplace(urgency[next], next);
    }
  }
  if (done < 2 * count) return "stuck";
  for (const int chip : mesh.live()) {
    if (buffer[static_cast<std::size_t>(chip)] != sum) return "wrong sum at chip " + std::to_string(chip);
  }
  return "";
}

/// The first thing that goes wrong in so many runs.
inline std::string run_often(const comm::Schedule& plan, int runs) {
  for (int i = 0; i < runs; ++i) {
    if (std::string wrong = run_schedule(plan, static_cast<std::uint64_t>(i)); !wrong.empty()) return wrong;
  }
  return "";
}

/// A tree that grows from a random root by random edges.
inline std::vector<int> random_tree(const comm::Topology& mesh, std::mt19937_64& random, int& root) {
  std::vector<int> parent(static_cast<std::size_t>(mesh.chips()), -1);
  root = mesh.live()[random() % mesh.live().size()];
  std::vector<int> in{root};
  while (in.size() < mesh.live().size()) {
    const int from = in[random() % in.size()];
    const auto next = mesh.neighbours(from);
    const int chip = next[random() % next.size()];
    if (chip == root || parent[static_cast<std::size_t>(chip)] != -1) continue;
    parent[static_cast<std::size_t>(chip)] = from;
    in.push_back(chip);
  }
  return parent;
}

}  // namespace bitrift::tests
