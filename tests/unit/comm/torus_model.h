// How long published allreduce algorithms take on a whole torus, in the model of the links.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "comm/graph/topology_graph.h"
#include "comm/model/link_model.h"
#include "unit/comm/torus_sends.h"

namespace bitrift::comm {

/// What a torus costs whose chips are joined to a router each. The links are those between routers; `ends`
/// is the time, in seconds, that each message also takes from its chip to a router and from a router to its
/// chip. It is added to every step: messages of different steps do not overlap there.
struct TorusCost {
  LinkCost link;
  double ends = 0;
};
/// The network of the paper's Section 5: links of 400 Gb/s with 100 ns, and 300 ns a hop for processing. Our
/// reading: a message over d links between routers crosses d + 1 routers and, with those of both chips, d + 2
/// links, which is 0.4 d + 0.5 us.
constexpr TorusCost kSwingPaper = {.link = {.bandwidth = 50e9, .latency = 4e-7, .overhead = 0}, .ends = 5e-7};

/// Seconds of an allreduce, for the faster form of Swing and of recursive doubling.
struct TorusTimes {
  double swing = 0, doubling = 0, bucket = 0, ring = 0;
  [[nodiscard]] double best_other() const { return std::min({doubling, bucket, ring}); }
  [[nodiscard]] double gain() const { return best_other() / swing; }
};

class TorusModel {
 public:
  TorusModel(const Torus& torus, const TorusCost& cost)
      : torus_(torus),
        graph_(graph_of(Topology(torus.side(0), torus.side(1), Wrap::both, {}, {}))),
        cost_(cost) {}

  [[nodiscard]] TorusTimes times(double bytes) const {
    return {.swing = std::min(swing(bytes, false), swing(bytes, true)),
            .doubling = std::min(doubling(bytes, false), doubling(bytes, true)),
            .bucket = bucket(bytes),
            .ring = ring(bytes)};
  }

 private:
  static constexpr int pieces = 8;
  static constexpr double least = 4096;

  [[nodiscard]] double swing(double bytes, bool halving) const {
    SendList sends;
    add_swing(sends, torus_, bytes, halving, pieces, least);
    return seconds(sends, swing_steps(torus_, bytes, 0, false, halving).size() * (halving ? 2 : 1));
  }
  [[nodiscard]] double doubling(double bytes, bool halving) const {
    const Collective steps = doubling_steps(torus_, bytes, halving);
    const Collective all = halving ? and_back(steps) : steps;
    SendList sends;
    add_collective(sends, torus_, all, pieces, least, at_once(torus_));
    return seconds(sends, all.size());
  }
  [[nodiscard]] double bucket(double bytes) const {
    SendList sends;
    add_bucket(sends, torus_, bytes);
    return seconds(sends, bucket_step_count(torus_));
  }
  // Two rings through all chips that share no link, both directions of each, with a quarter of the bytes.
  [[nodiscard]] double ring(double bytes) const {
    const double chips = torus_.chips();
    return bytes * (chips - 1) / (chips * 2 * cost_.link.bandwidth) +
           2 * (chips - 1) * (cost_.link.latency + cost_.link.overhead + cost_.ends);
  }
  [[nodiscard]] double seconds(const SendList& sends, std::size_t steps) const {
    return simulate(graph_, cost_.link, sends, LinkOrder::arrival).finish +
           static_cast<double>(steps) * cost_.ends;
  }

  Torus torus_;
  Graph graph_;
  TorusCost cost_;
};

/// Microseconds of an allreduce of 32 bytes, as printed in the paper's Figures 6, 10 and 11.
struct PublishedTimes {
  Torus torus;
  double swing, doubling, bucket, ring;
};
inline std::vector<PublishedTimes> published_times() {
  return {{{8, 8}, 7, 8.7, 25, 120},
          {{64, 64}, 40, 57, 230, 7000},
          {{64, 16}, 26, 36, 230, 2000},
          {{128, 8}, 41, 59, 464, 2000},
          {{256, 4}, 74, 109, 932, 2000}};
}

}  // namespace bitrift::comm
