#include "comm/model/slow_link.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/graph/strength.h"
#include "comm/graph/topology_graph.h"
#include "comm/model/schedule_model.h"
#include "comm/plan/planner.h"
#include "core/error.h"

namespace bitrift::comm {
namespace {

Topology mesh_with_a_hole() { return {3, 3, Wrap::neither, {{{1, 1}}}, {}}; }

TEST(SlowLink, HasTwoNeighboursAndADelay) {
  const Topology mesh = mesh_with_a_hole();
  EXPECT_EQ(slow_link_from_text(mesh, "0,2-1,2:2ms"), (SlowLink{{2, 5}, 2e-3}));
  EXPECT_EQ(slow_link_from_text(mesh, "1,2-0,2:1.5us"), (SlowLink{{2, 5}, 1.5e-6}));
  const Topology torus = Topology(3, 4, Wrap::both, {}, {});
  EXPECT_EQ(slow_link_from_text(torus, "0,0-0,3:1s"), (SlowLink{{0, 3}, 1}));
}

TEST(SlowLink, WhatIsNoSlowLinkIsRefused) {
  const Topology mesh = mesh_with_a_hole().without_link({0, 1});
  const auto refusal = [&](const std::string& text) {
    try {
      (void)slow_link_from_text(mesh, text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      EXPECT_THAT(error.what(), testing::StartsWith("slow link '" + text + "': "));
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  for (const char* text : {"", ":", "0,2-1,2", "0,2-1,2 :1ms", "0,2:1ms", "0,2-1,2-2,2:1ms", "0,-2-1,2:1ms"})
    EXPECT_THAT(refusal(text), testing::HasSubstr("expected ROW,COLUMN-ROW,COLUMN:TIME")) << text;
  for (const char* text : {"0,2-1,2:", "0,2-1,2:2", "0,2-1,2:-1ms", "0,2-1,2:1ms:1ms", "0,2-1,2:2000s"})
    EXPECT_THAT(refusal(text), testing::HasSubstr("expected a time")) << text;
  EXPECT_THAT(refusal("0,2-1,2:0ms"), testing::HasSubstr("a delay of more than 0"));
  EXPECT_THAT(refusal("0,2-0,3:1ms"), testing::HasSubstr("no chip in row 0, column 3"));
  EXPECT_THAT(refusal("0,1-1,1:1ms"), testing::HasSubstr("chip 4 (row 1, column 1) is dead"));
  EXPECT_THAT(refusal("0,0-2,2:1ms"), testing::HasSubstr("no live link joins"));
  EXPECT_THAT(refusal("0,0-0,1:1ms"), testing::HasSubstr("no live link joins"));
}

TEST(SlowLink, DelaysBelongToEdgesAndAddUp) {
  const Topology mesh = mesh_with_a_hole();
  const Graph graph = graph_of(mesh);
  const std::vector<SlowLink> slow = {{{5, 8}, 2}, {{0, 1}, 3}, {{5, 8}, 0.5}};
  const std::vector<double> delays = delays_of(mesh, graph, slow);
  const std::vector<int>& live = mesh.live();
  for (std::size_t i = 0; i < delays.size(); ++i) {
    const Edge& edge = graph.edges()[i];
    const Link link = std::minmax(live[at_index(edge.a)], live[at_index(edge.b)]);
    EXPECT_EQ(delays[i], link == Link(5, 8) ? 2.5 : link == Link(0, 1) ? 3 : 0);
  }
}

// Around a ring, each chunk crosses a link at most once on its way to be summed, and once on its way back.
TEST(SlowLink, ARingWaitsTwiceForItsSlowLink) {
  const Topology mesh = mesh_with_a_hole();
  const ScheduleModel model(plan_schedule(mesh, Scheme::ring), strength_of(graph_of(mesh)).tau);
  const Workload work{.bytes = 1e6};
  const double fast = model.run(work).seconds;
  const Forecast slow = model.run(work, std::vector{slow_link_from_text(mesh, "0,2-1,2:1s")});
  EXPECT_NEAR(slow.seconds, fast + 2, fast);
  EXPECT_EQ(slow.bound, model.run(work).bound);
  EXPECT_DOUBLE_EQ(slow.mean_load(), model.run(work).mean_load());
}

}  // namespace
}  // namespace bitrift::comm
