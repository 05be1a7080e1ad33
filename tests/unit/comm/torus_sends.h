// Published allreduce algorithms on whole square tori, as lists of sends for the model of the links.
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

/// The chips of a torus of side x side, numbered row by row.
class SquareTorus {
 public:
  explicit SquareTorus(int side) : side_(side) {}
  [[nodiscard]] int side() const { return side_; }
  [[nodiscard]] int chips() const { return side_ * side_; }
  /// Steps of one chip to the next at a time.
  [[nodiscard]] std::vector<int> path(int chip, const TorusStep& step) const {
    int place[2] = {chip / side_, chip % side_};
    const int turned = (place[step.dimension] & step.turning) != 0 ? -step.distance : step.distance;
    std::vector<int> out = {chip};
    for (int i = 0; i < std::abs(turned); ++i) {
      int& at = place[step.dimension];
      at = (at + (turned > 0 ? 1 : side_ - 1)) % side_;
      out.push_back(place[0] * side_ + place[1]);
    }
    return out;
  }

 private:
  int side_;
};

/// A step begins when that before it has arrived and left. Messages to chips further away are cut into up to
/// `pieces`, of at least `least` bytes, which the chips on the way pass on one by one.
inline void add_collective(SendList& sends, const SquareTorus& torus, const Collective& steps, int pieces,
                           double least) {
  std::vector<std::vector<SendId>> ready(static_cast<std::size_t>(torus.chips()));
  for (const TorusStep& step : steps) {
    const double most =
        std::abs(step.distance) > 1 ? std::max(1.0, std::min<double>(pieces, step.bytes / least)) : 1;
    const int count = static_cast<int>(most);
    std::vector<std::vector<SendId>> next(ready.size());
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

/// 2 log2(side).
inline int torus_steps(int side) {
  int steps = 0;
  for (; side > 1; side /= 2) steps += 2;
  return steps;
}

/// Both dimensions take turns, `first` first; mirrored: all signs are the other way round. halving: a step
/// carries half of what is left (Swing's bandwidth-optimal form); otherwise all of it (latency-optimal).
inline Collective swing_steps(int side, double bytes, int first, bool mirrored, bool halving) {
  Collective out;
  for (int s = 0; s < torus_steps(side); ++s) {
    if (halving) bytes /= 2;
    const int distance = swing_distance(s / 2);
    out.push_back({(first + s) % 2, mirrored ? -distance : distance, 1, bytes});
  }
  return out;
}

/// Recursive doubling between chips whose coordinates differ in one bit, the nearest first; halving is
/// Rabenseifner's form.
inline Collective doubling_steps(int side, double bytes, bool halving) {
  Collective out;
  for (int s = 0; s < torus_steps(side); ++s) {
    if (halving) bytes /= 2;
    out.push_back({s % 2, 1 << (s / 2), 1 << (s / 2), bytes});
  }
  return out;
}

/// The bucket algorithm: a ring reduce-scatter along one dimension, then along the other.
inline Collective bucket_steps(int side, double bytes, int first, bool mirrored) {
  Collective out;
  for (int dimension = 0; dimension < 2; ++dimension) {
    bytes /= side;
    for (int s = 1; s < side; ++s) out.push_back({(first + dimension) % 2, mirrored ? -1 : 1, 0, bytes});
  }
  return out;
}

/// All four ports of a chip are used at once: `steps(bytes, first, mirrored)` for a quarter of the bytes
/// each.
template <typename Steps>
void add_on_all_ports(SendList& sends, const SquareTorus& torus, double bytes, int pieces, double least,
                      Steps steps) {
  for (const int first : {0, 1})
    for (const bool mirrored : {false, true})
      add_collective(sends, torus, steps(bytes / 4, first, mirrored), pieces, least);
}

}  // namespace bitrift::comm
