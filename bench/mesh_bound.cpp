// How close trees come to the bound of an allreduce, in the model of the links. Run by hand;
// docs/mesh-bound.md has what it printed.
//
// bench_mesh_bound certificates        the bound, and how far a packing of trees is below it
// bench_mesh_bound efficiency [SMALL]  bound / modelled time: 1.34 GB and 102 MB, 16x32 and 32x32, boards
// dead or not, mesh
//                                      and torus; with SMALL, only meshes of at most so many chips
// bench_mesh_bound small               planning and efficiency on 4x4
// bench_mesh_bound orders              the same trees and chunks in each order of sending, 102 MB on 32x32
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "comm/graph/strength.h"
#include "comm/graph/tree_packing.h"
#include "comm/model/link_model.h"
#include "comm/model/schedule_sends.h"
#include "comm/model/tree_plan.h"
#include "comm/plan/trees.h"
#include "core/error.h"
#include "unit/comm/mesh_graph.h"

namespace bitrift::comm {
namespace {

constexpr double kBandwidth = 83e9;  // assumed: bytes per second in one direction of one link

// Processor seconds of this program.
double now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Case {
  int rows, columns, dead_rows, dead_columns;
  bool wrap;
  [[nodiscard]] Topology mesh() const { return mesh_with_hole(rows, columns, dead_rows, dead_columns, wrap); }
  [[nodiscard]] Graph graph() const { return graph_of(mesh()); }
  [[nodiscard]] std::string name() const {
    const std::string hole = dead_rows > 0 ? fmt::format(" - {}x{}", dead_rows, dead_columns) : "";
    return fmt::format("{} {}x{}{}", wrap ? "torus" : "mesh", rows, columns, hole);
  }
};

std::vector<Case> places() {
  std::vector<Case> out;
  for (const bool wrap : {false, true})
    for (const int rows : {16, 32})
      for (const auto& [down, right] : {std::pair(0, 0), std::pair(2, 2), std::pair(4, 2), std::pair(4, 4)})
        out.push_back({rows, 32, down, right, wrap});
  return out;
}

void certificates() {
  fmt::print("{:<20} {:>10} {:>8} {:>6} {:>6} {:>8} {:>8} {:>8}\n", "topology", "tau", "tau", "parts",
             "trees", "packed", "gap %", "seconds");
  for (const Case& place : places()) {
    const Graph mesh = place.graph();
    const Strength bound = strength_of(mesh);
    const double start = now();
    const Packing packing = pack_trees(mesh, {.trees = 61});
    fmt::print("{:<20} {:>10} {:>8.4f} {:>6} {:>6} {:>8.4f} {:>8.2f} {:>8.2f}\n", place.name(),
               fmt::format("{}/{}", bound.tau.numerator, bound.tau.denominator), bound.tau.value(),
               bound.parts, packing.trees.size(), packing.value(),
               100 * (1 - packing.value() / bound.tau.value()), now() - start);
  }
}

void efficiency_line(const Case& place, double bytes, const LinkCost& cost) {
  const Graph mesh = place.graph();
  const double bound = bound_seconds(bytes, cost.bandwidth, strength_of(mesh).tau.value());
  const double start = now();
  const TreePlan plan = choose_trees(mesh, bytes, cost);
  const double planned = now();
  const Schedule schedule = plan_trees(place.mesh(), {bytes, cost});  // chooses the same trees again
  const double listed = now();
  const SendList sends = sends_of(schedule, bytes);
  const LinkTimes times = simulate(mesh, cost, sends, LinkOrder::priority);
  fmt::print(
      "{:<20} {:>7.2f} {:>4.1f} {:>4.1f} {:>6} {:>7} {:>6.1f} {:>8.3f} {:>8.3f} {:>8.3f} {:>10.1f} {:>8.1f} "
      "{:>8.1f}\n",
      place.name(), bytes / 1e6, cost.latency * 1e6, cost.overhead * 1e6, plan.packing.trees.size(),
      plan.chunks, plan.packing.mean_depth(), bound / times.busiest(), bound / plan.estimate,
      bound / times.finish, times.finish * 1e6, planned - start, now() - listed);
  std::fflush(stdout);
}

void header() {
  fmt::print("{:<20} {:>7} {:>4} {:>4} {:>6} {:>7} {:>6} {:>8} {:>8} {:>8} {:>10} {:>8} {:>8}\n", "topology",
             "MB", "lat", "over", "trees", "chunks", "depth", "links", "estimate", "of bound", "us", "plan s",
             "model s");
}

void efficiency(int most) {
  header();
  for (const Case& place : places()) {
    if (place.rows * place.columns > most) continue;
    efficiency_line(place, 1.34e9, {kBandwidth, 0, 0});
    efficiency_line(place, 1.34e9, {kBandwidth, 1e-6, 1e-7});
    efficiency_line(place, 102e6, {kBandwidth, 1e-6, 1e-7});
  }
}

void orders() {
  const LinkCost cost = {kBandwidth, 1e-6, 1e-7};
  for (const bool wrap : {false, true}) {
    const Graph mesh = mesh_graph(32, 32, 0, 0, wrap);
    const double bound = bound_seconds(102e6, kBandwidth, strength_of(mesh).tau.value());
    const Schedule plan = plan_trees(mesh_with_hole(32, 32, 0, 0, wrap), {102e6, cost});
    const SendList sends = sends_of(plan, 102e6);
    const LinkTimes priority = simulate(mesh, cost, sends, LinkOrder::priority);
    const SendList listed = reordered(sends, order_of_start(priority.start));
    fmt::print(
        "{} 32x32, share of the bound: priority {:.3f}, listed by start {:.3f}, listed by due time {:.3f}, "
        "arrival {:.3f}\n",
        wrap ? "torus" : "mesh", bound / priority.finish,
        bound / simulate(mesh, cost, listed, LinkOrder::listed).finish,
        bound / simulate(mesh, cost, sends, LinkOrder::listed).finish,
        bound / simulate(mesh, cost, sends, LinkOrder::arrival).finish);
  }
}

void small() {
  header();
  for (const int hole : {0, 2})
    for (const double bytes : {1e4, 1e6, 102e6})
      efficiency_line({4, 4, hole, hole, false}, bytes, {kBandwidth, 1e-6, 1e-7});
  for (const int hole : {0, 2}) {
    const Graph mesh = mesh_graph(4, 4, hole, hole, false);
    const double start = now();
    (void)choose_trees(mesh, 1e6, {kBandwidth, 1e-6, 1e-7});
    fmt::print("planning 4x4 - {}x{}: {:.2f} ms\n", hole, hole, 1e3 * (now() - start));
  }
}

}  // namespace
}  // namespace bitrift::comm

int main(int count, char** arguments) {
  using namespace bitrift::comm;
  const std::string_view what = count > 1 ? arguments[1] : "";
  try {
    if (what == "certificates") {
      certificates();
    } else if (what == "efficiency") {
      efficiency(count > 2 ? std::atoi(arguments[2]) : 1 << 20);
    } else if (what == "small") {
      small();
    } else if (what == "orders") {
      orders();
    } else {
      fmt::print(stderr, "usage: bench_mesh_bound certificates | efficiency [SMALL] | small | orders\n");
      return 2;
    }
  } catch (const bitrift::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  }
  return 0;
}
