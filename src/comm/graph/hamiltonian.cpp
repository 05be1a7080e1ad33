#include "comm/graph/hamiltonian.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace bitrift::comm {
namespace {

/// Rings around the 2x2 boards of a mesh, joined to one along a spanning tree of the boards.
class BoardTree {
 public:
  explicit BoardTree(const Topology& topology)
      : topology_(topology), next_to_(static_cast<std::size_t>(topology.chips()), {none_, none_}) {}

  /// Empty if the mesh does not divide into such boards, or links that it needs are dead.
  std::optional<std::vector<int>> cycle() {
    if (topology_.rows() % 2 != 0 || topology_.columns() % 2 != 0) return std::nullopt;
    for (int row = 0; row < topology_.rows(); row += 2) {
      for (int column = 0; column < topology_.columns(); column += 2) {
        if (!add_board({row, column})) return std::nullopt;
      }
    }
    join_boards();
    return walk();
  }

 private:
  static constexpr int none_ = -1;

  [[nodiscard]] std::array<int, 4> around(Place corner) const {
    const auto [row, column] = corner;
    return {topology_.chip({row, column}), topology_.chip({row, column + 1}),
            topology_.chip({row + 1, column + 1}), topology_.chip({row + 1, column})};
  }
  std::array<int, 2>& ends(int chip) { return next_to_[static_cast<std::size_t>(chip)]; }
  void replace(int chip, int old, int fresh) { std::ranges::replace(ends(chip), old, fresh); }

  bool add_board(Place corner) {
    const auto chips = around(corner);
    const auto live = std::ranges::count_if(chips, [&](int chip) { return topology_.alive(chip); });
    if (live == 0) return true;
    if (live < 4) return false;
    for (std::size_t i = 0; i < 4; ++i) {
      // A ring around the board may use a dead link here that is removed when boards are joined.
      ends(chips[i]) = {chips[(i + 3) % 4], chips[(i + 1) % 4]};
    }
    return true;
  }

  // Removes the sides where two boards face each other, and links the four ends across.
  bool join(Place one, Place other) {
    const auto a = around(one);
    const auto b = around(other);
    for (std::size_t i = 0; i < 4; ++i) {
      const int a1 = a[i], a2 = a[(i + 1) % 4];
      for (std::size_t k = 0; k < 4; ++k) {
        const int b1 = b[k], b2 = b[(k + 1) % 4];
        if (!topology_.linked(a1, b2) || !topology_.linked(a2, b1)) continue;
        if (std::ranges::count(ends(a1), a2) == 0 || std::ranges::count(ends(b1), b2) == 0) continue;
        replace(a1, a2, b2);
        replace(b2, b1, a1);
        replace(a2, a1, b1);
        replace(b1, b2, a2);
        return true;
      }
    }
    return false;
  }

  void join_boards() {
    if (topology_.live().empty()) return;
    const int rows = topology_.rows() / 2, columns = topology_.columns() / 2;
    const auto number_of = [&](Place board) {
      return static_cast<std::size_t>(board.row) * static_cast<std::size_t>(columns) +
             static_cast<std::size_t>(board.column);
    };
    std::vector<bool> joined(number_of({rows, 0}), false);
    const Place first = topology_.place(topology_.live().front());
    std::vector<Place> open{{first.row / 2, first.column / 2}};
    joined[number_of(open[0])] = true;
    for (std::size_t done = 0; done < open.size(); ++done) {
      const Place here = open[done];
      for (const auto& [down, right] : {std::pair(0, 1), {1, 0}, {0, -1}, {-1, 0}}) {
        const Place next{(here.row + down + rows) % rows, (here.column + right + columns) % columns};
        const std::size_t number = number_of(next);
        if (joined[number] || !topology_.alive(topology_.chip({2 * next.row, 2 * next.column}))) continue;
        if (!join({2 * here.row, 2 * here.column}, {2 * next.row, 2 * next.column})) continue;
        joined[number] = true;
        open.push_back(next);
      }
    }
  }

  std::optional<std::vector<int>> walk() {
    std::vector<int> cycle{topology_.live().front()};
    int before = ends(cycle.front())[0];
    do {
      const int here = cycle.back();
      const int next = ends(here)[0] == before ? ends(here)[1] : ends(here)[0];
      if (!topology_.linked(here, next)) return std::nullopt;
      before = here;
      cycle.push_back(next);
    } while (cycle.back() != cycle.front() && cycle.size() <= topology_.live().size());
    cycle.pop_back();
    if (cycle.size() != topology_.live().size()) return std::nullopt;
    return cycle;
  }

  const Topology& topology_;
  std::vector<std::array<int, 2>> next_to_;  // for each chip, its neighbours along the ring
};

/// Extends a path chip by chip, and takes steps back when the rest can no longer be closed to a ring.
class PathSearch {
 public:
  /// Different starts and orders of chips lead to different searches.
  PathSearch(const Topology& topology, int start, int order)
      : topology_(topology),
        used_(static_cast<std::size_t>(topology.chips()), false),
        start_(start),
        order_(order) {}

  /// Empty if there is none, or if it gave up.
  std::vector<int> run() {
    path_ = {start_};
    used_[static_cast<std::size_t>(start_)] = true;
    return extend() ? path_ : std::vector<int>{};
  }
  [[nodiscard]] bool gave_up() const noexcept { return steps_ > most_cycle_steps; }

 private:
  [[nodiscard]] bool used(int chip) const { return used_[static_cast<std::size_t>(chip)]; }

  // Chips that could still precede or follow a free chip.
  [[nodiscard]] int ways(int chip) const {
    return static_cast<int>(std::ranges::count_if(topology_.neighbours(chip), [&](int next) {
      return !used(next) || next == path_.back() || next == start_;
    }));
  }

  // Whether the free chips are one piece that touches both ends of the path, and none is a dead end.
  [[nodiscard]] bool hopeful() const {
    std::vector<bool> reached = used_;
    std::vector<int> open{path_.back()};
    std::size_t count = 0;
    bool closes = false;
    while (!open.empty()) {
      const int chip = open.back();
      open.pop_back();
      for (const int next : topology_.neighbours(chip)) {
        closes = closes || (next == start_ && chip != path_.back());
        if (reached[static_cast<std::size_t>(next)]) continue;
        reached[static_cast<std::size_t>(next)] = true;
        if (ways(next) < 2) return false;
        ++count;
        open.push_back(next);
      }
    }
    return closes && count == topology_.live().size() - path_.size();
  }

  // Depth: at most the number of live chips.
  bool extend() {
    if (path_.size() == topology_.live().size()) return topology_.linked(path_.back(), start_);
    if (++steps_ > most_cycle_steps) return false;
    if (!hopeful()) return false;
    std::vector<std::pair<int, int>> next;
    for (const int chip : topology_.neighbours(path_.back())) {
      if (!used(chip)) next.emplace_back(ways(chip), chip ^ order_);
    }
    std::sort(next.begin(), next.end());
    // A chip with only one other way, which is not the way to the start, comes next or never.
    const auto forced = [&](const auto& one) {
      return path_.size() > 1 && one.first == 2 && !topology_.linked(one.second ^ order_, start_);
    };
    if (const auto count = std::ranges::count_if(next, forced); count > 0) {
      if (count > 1) return false;
      std::erase_if(next, [&](const auto& one) { return !forced(one); });
    }
    for (const auto& [unused, ordered] : next) {
      const int chip = ordered ^ order_;
      path_.push_back(chip);
      used_[static_cast<std::size_t>(chip)] = true;
      if (extend()) return true;
      path_.pop_back();
      used_[static_cast<std::size_t>(chip)] = false;
      if (gave_up()) return false;
    }
    return false;
  }

  const Topology& topology_;
  std::vector<bool> used_;
  std::vector<int> path_;
  int start_;
  int order_;  // all bits set: the chip with the higher number first
  int steps_ = 0;
};

// Why a ring is impossible, if that is easy to see.
std::string obstacle(const Topology& topology) {
  for (const int chip : topology.live()) {
    if (topology.neighbours(chip).size() < 2)
      return fmt::format("{} has only one live neighbour", topology.name(chip));
  }
  // Coloured like a chess board, a ring changes colour with each step.
  std::vector<int> colour(static_cast<std::size_t>(topology.chips()), 0);
  std::vector<int> open{topology.live().front()};
  colour[static_cast<std::size_t>(open[0])] = 1;
  int balance = 1;
  for (std::size_t done = 0; done < open.size(); ++done) {
    const int mine = colour[static_cast<std::size_t>(open[done])];
    for (const int next : topology.neighbours(open[done])) {
      int& other = colour[static_cast<std::size_t>(next)];
      if (other == mine) return "";
      if (other != 0) continue;
      other = -mine;
      balance += other;
      open.push_back(next);
    }
  }
  const int count = static_cast<int>(topology.live().size());
  if (balance == 0) return "";
  return fmt::format("coloured like a chess board, {} live chips have one colour and {} the other",
                     (count + balance) / 2, (count - balance) / 2);
}

// The first search starts where few ways lead on, the others start anywhere.
int start_of(const Topology& topology, int search) {
  const std::vector<int>& live = topology.live();
  if (search == 0)
    return *std::ranges::min_element(live, {}, [&](int chip) { return topology.neighbours(chip).size(); });
  return live[live.size() * static_cast<std::size_t>(search) / most_cycle_searches];
}

}  // namespace

CycleSearch find_cycle(const Topology& topology) {
  if (topology.live().size() <= 2) return {topology.live(), "", false};
  if (auto cycle = BoardTree(topology).cycle()) return {std::move(*cycle), "", false};
  if (std::string why = obstacle(topology); !why.empty()) return {{}, std::move(why), true};
  for (int i = 0; i < most_cycle_searches; ++i) {
    PathSearch search(topology, start_of(topology, i), i % 2 == 0 ? 0 : ~0);
    if (auto cycle = search.run(); !cycle.empty()) return {std::move(cycle), "", false};
    if (!search.gave_up()) return {{}, "all paths were tried", true};
  }
  return {{},
          fmt::format("none was found in {} searches of {} steps, so there may be one", most_cycle_searches,
                      most_cycle_steps),
          false};
}

}  // namespace bitrift::comm
