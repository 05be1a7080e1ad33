// Published allreduce algorithms on whole tori, as lists of sends for the model of the links.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "comm/model/send_list.h"

namespace bitrift::comm {

/// What every chip sends in one step of a collective: along a dimension, to the chip `distance` away. In
/// algorithms that pair chips, those with an odd coordinate (or with this bit set) go the other way.
struct TorusStep {
  int dimension = 0;  ///< 0: along a column
  int distance = 0;   ///< signed
  int turning = 0;    ///< chips whose coordinate has this bit go the other way; 0: none
  double bytes = 0;
};
using Collective = std::vector<TorusStep>;

/// The chips of a torus, numbered row by row.
class Torus {
 public:
  Torus(int rows, int columns) : sides_{rows, columns} {}
  /// Along a column: its rows; along a row: its columns.
  [[nodiscard]] int side(int dimension) const { return sides_[dimension]; }
  [[nodiscard]] int chips() const { return sides_[0] * sides_[1]; }
  /// Steps of one chip to the next at a time.
  [[nodiscard]] std::vector<int> path(int chip, const TorusStep& step) const {
    int place[2] = {chip / sides_[1], chip % sides_[1]};
    const int turned = (place[step.dimension] & step.turning) != 0 ? -step.distance : step.distance;
    std::vector<int> out = {chip};
    for (int i = 0; i < std::abs(turned); ++i) {
      int& at = place[step.dimension];
      at = (at + (turned > 0 ? 1 : sides_[step.dimension] - 1)) % sides_[step.dimension];
      out.push_back(place[0] * sides_[1] + place[1]);
    }
    return out;
  }

 private:
  int sides_[2];
};

/// For each chip, the sends that its next step waits for.
using Ready = std::vector<std::vector<SendId>>;
inline Ready at_once(const Torus& torus) { return Ready(static_cast<std::size_t>(torus.chips())); }

/// A step begins when that before it has arrived and left, and the first one when `ready` has; returns what
/// the step after the last would wait for. Messages to chips further away are cut into up to `pieces`, of at
/// least `least` bytes, which the chips on the way pass on one by one.
inline Ready add_collective(SendList& sends, const Torus& torus, const Collective& steps, int pieces,
                            double least, Ready ready) {
  for (const TorusStep& step : steps) {
    const double most =
        std::abs(step.distance) > 1 ? std::max(1.0, std::min<double>(pieces, step.bytes / least)) : 1;
    const int count = static_cast<int>(most);
    Ready next(ready.size());
    for (int chip = 0; chip < torus.chips(); ++chip) {
      const std::vector<int> path = torus.path(chip, step);
      for (int piece = 0; piece < count; ++piece) {
        SendId sent = 0;
        for (std::size_t i = 0; i + 1 < path.size(); ++i) {
          const double bytes = step.bytes / count;
          sent = i == 0 ? sends.add(path[0], path[1], bytes, ready[static_cast<std::size_t>(chip)])
                        : sends.add(path[i], path[i + 1], bytes, {&sent, 1});
          if (i == 0 && piece + 1 == count) next[static_cast<std::size_t>(chip)].push_back(sent);
        }
        next[static_cast<std::size_t>(path.back())].push_back(sent);
      }
    }
    ready = std::move(next);
  }
  return ready;
}

/// Reduce-scatter by these steps, and the same ways back.
inline Collective and_back(Collective steps) {
  steps.insert(steps.end(), steps.rbegin(), steps.rend());
  return steps;
}

/// The distance of Swing's step s in a dimension: 1, -1, 3, -5, 11, ...
inline int swing_distance(int step) {
  return (1 - static_cast<int>(std::lround(std::pow(-2.0, step + 1)))) / 3;
}

/// A step among those of its dimension, from 0.
struct Turn {
  int dimension = 0, step = 0;
};
/// log2(side) steps in each dimension. They take turns, `first` first, until the shorter one is done.
inline std::vector<Turn> turns(const Torus& torus, int first) {
  std::vector<Turn> out;
  for (int step = 0; (1 << step) < std::max(torus.side(0), torus.side(1)); ++step)
    for (const int dimension : {first, 1 - first})
      if ((1 << step) < torus.side(dimension)) out.push_back({dimension, step});
  return out;
}

/// mirrored: all signs are the other way round. halving: a step carries half of what is left (Swing's
/// bandwidth-optimal form); otherwise all of it (latency-optimal).
inline Collective swing_steps(const Torus& torus, double bytes, int first, bool mirrored, bool halving) {
  Collective out;
  for (const auto& [dimension, step] : turns(torus, first)) {
    if (halving) bytes /= 2;
    const int distance = swing_distance(step);
    out.push_back({dimension, mirrored ? -distance : distance, 1, bytes});
  }
  return out;
}

/// Recursive doubling between chips whose coordinates differ in one bit, the nearest first; halving is
/// Rabenseifner's form.
inline Collective doubling_steps(const Torus& torus, double bytes, bool halving) {
  Collective out;
  for (const auto& [dimension, step] : turns(torus, 0)) {
    if (halving) bytes /= 2;
    out.push_back({dimension, 1 << step, 1 << step, bytes});
  }
  return out;
}

/// A ring reduce-scatter along one dimension; its chips have `bytes`. The bucket algorithm does one along
/// each dimension.
inline Collective bucket_steps(const Torus& torus, double bytes, int dimension, bool mirrored) {
  const int side = torus.side(dimension);
  return Collective(static_cast<std::size_t>(side - 1), {dimension, mirrored ? -1 : 1, 0, bytes / side});
}

/// The four ports of a chip.
struct Port {
  int first = 0;
  bool mirrored = false;
};
constexpr Port kPorts[] = {{0, false}, {0, true}, {1, false}, {1, true}};

/// Swing on all four ports, with a quarter of the bytes each.
inline void add_swing(SendList& sends, const Torus& torus, double bytes, bool halving, int pieces,
                      double least) {
  for (const auto& [first, mirrored] : kPorts) {
    const Collective steps = swing_steps(torus, bytes / 4, first, mirrored, halving);
    add_collective(sends, torus, halving ? and_back(steps) : steps, pieces, least, at_once(torus));
  }
}

/// The bucket algorithm on all four ports, with a quarter of the bytes each. At each chip, they go on to the
/// next dimension together, as in the paper (Section 5.2).
inline void add_bucket(SendList& sends, const Torus& torus, double bytes) {
  Ready ready = at_once(torus);
  for (const int phase : {0, 1, 1, 0}) {
    Ready joint = at_once(torus);
    for (const auto& [first, mirrored] : kPorts) {
      const int dimension = phase == 0 ? first : 1 - first;
      const double share = phase == 0 ? bytes / 4 : bytes / 4 / torus.side(first);
      const Ready done =
          add_collective(sends, torus, bucket_steps(torus, share, dimension, mirrored), 1, 1, ready);
      for (std::size_t chip = 0; chip < joint.size(); ++chip)
        joint[chip].insert(joint[chip].end(), done[chip].begin(), done[chip].end());
    }
    ready = std::move(joint);
  }
}

/// Steps one after the other of add_bucket: those along the longer side, four times.
inline std::size_t bucket_step_count(const Torus& torus) {
  return 4 * static_cast<std::size_t>(std::max(torus.side(0), torus.side(1)) - 1);
}

}  // namespace bitrift::comm
