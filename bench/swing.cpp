// Swing (NSDI 2024) and other published allreduce algorithms on whole tori, in the model of the links. Run by
// hand; docs/mesh-bound.md has what it printed.
//
// bench_swing [ROWSxCOLUMNS]  each algorithm from 32 B to 512 MiB, with the costs of the other tables and
//                             those of the paper; 64x64 takes a minute or two, and some GB of memory
// bench_swing published       the times that the paper prints, beside those of the model
#include <bit>
#include <cstdio>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "comm/topology.h"
#include "core/error.h"
#include "unit/comm/torus_model.h"

namespace bitrift::comm {
namespace {

void table(const Torus& torus, const TorusCost& cost) {
  fmt::print("torus {}x{}, {:.0f} GB/s, latency {:.1f} us, overhead {:.1f} us, ends {:.1f} us; times in us\n",
             torus.side(0), torus.side(1), cost.link.bandwidth / 1e9, cost.link.latency * 1e6,
             cost.link.overhead * 1e6, cost.ends * 1e6);
  fmt::print("{:>10} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8}\n", "bytes", "swing", "doubling",
             "bucket", "ring", "doubling", "bucket", "ring", "best");
  const TorusModel model(torus, cost);
  for (double bytes = 32; bytes < 1 << 30; bytes *= 4) {
    const TorusTimes t = model.times(bytes);
    fmt::print("{:>10.0f} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f}\n", bytes,
               t.swing * 1e6, t.doubling * 1e6, t.bucket * 1e6, t.ring * 1e6, t.doubling / t.swing,
               t.bucket / t.swing, t.ring / t.swing, t.gain());
    std::fflush(stdout);
  }
}

void published() {
  fmt::print("32 B, microseconds: the paper's and the model's\n{:<8} {:>12} {:>14} {:>14} {:>16}\n", "torus",
             "swing", "doubling", "bucket", "ring");
  for (const PublishedTimes& paper : published_times()) {
    const TorusTimes t = TorusModel(paper.torus, kSwingPaper).times(32);
    const auto pair = [](double theirs, double ours) { return fmt::format("{:g} {:.1f}", theirs, ours); };
    fmt::print("{:<8} {:>12} {:>14} {:>14} {:>16}\n",
               fmt::format("{}x{}", paper.torus.side(0), paper.torus.side(1)),
               pair(paper.swing, t.swing * 1e6), pair(paper.doubling, t.doubling * 1e6),
               pair(paper.bucket, t.bucket * 1e6), pair(paper.ring, t.ring * 1e6));
    std::fflush(stdout);
  }
}

Torus torus_of(std::string_view text) {
  const Topology topology = topology_from_text({std::string(text), "both", {}, {}});
  const Torus torus(topology.rows(), topology.columns());
  for (const int dimension : {0, 1})
    if (!std::has_single_bit(static_cast<unsigned>(torus.side(dimension))) || torus.side(dimension) < 2)
      fail(ErrorCode::bad_input, "{}: each side must be a power of two", text);
  return torus;
}

}  // namespace
}  // namespace bitrift::comm

int main(int count, char** arguments) {
  using namespace bitrift::comm;
  const std::string_view what = count > 1 ? arguments[1] : "32x32";
  try {
    if (what == "published") {
      published();
    } else {
      const Torus torus = torus_of(what);
      table(torus, {.link = {83e9, 1e-6, 1e-7}, .ends = 0});
      table(torus, kSwingPaper);
    }
  } catch (const bitrift::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  }
  return 0;
}
