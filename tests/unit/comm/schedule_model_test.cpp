#include "comm/model/schedule_model.h"

#include <gtest/gtest.h>

#include "comm/plan/planner.h"
#include "core/error.h"
#include "mesh_graph.h"

namespace bitrift::comm {
namespace {

ScheduleModel model_of(const Schedule& schedule) {
  return {schedule, strength_of(graph_of(schedule.topology())).tau};
}

// S (n - 1) / (n B) and 2 (n - 1) steps, each with its overhead and latency.
TEST(ScheduleModel, ARingOnTwelveChipsTakesWhatItsFormulaSays) {
  const Schedule ring = plan_schedule(mesh_with_hole(4, 4, 2, 2, false), Scheme::ring);
  const ScheduleModel model = model_of(ring);
  for (const double bytes : {1e4, 102e6, 1.34e9}) {
    const Workload work = {.bytes = bytes, .cost = {.bandwidth = 83e9, .latency = 1e-6, .overhead = 1e-7}};
    const Forecast forecast = model.run(work);
    const double carried = bytes * 11 / 12 / 83e9;
    EXPECT_NEAR(forecast.seconds, carried + 22 * 1.1e-6, 1e-9 * forecast.seconds);
    EXPECT_NEAR(forecast.bound, carried, 1e-9 * carried);
    EXPECT_NEAR(forecast.links.front().seconds, carried + 22 * 1e-7, 1e-9 * forecast.seconds);
    EXPECT_NEAR(forecast.mean_load(), forecast.links.front().seconds, 1e-9 * forecast.seconds);
  }
  const Workload free = {.bytes = 1e6, .cost = {.bandwidth = 1e9, .latency = 0, .overhead = 0}};
  EXPECT_NEAR(model.run(free).of_bound(), 1, 1e-9);
}

TEST(ScheduleModel, NamesChipsOfTheMeshAndBothDirectionsOfEveryLink) {
  const Topology mesh = mesh_with_hole(3, 3, 1, 1, false);
  const Forecast forecast = model_of(plan_schedule(mesh, Scheme::trees)).run({});
  ASSERT_EQ(forecast.links.size(), mesh.links().size());
  for (std::size_t i = 0; i < forecast.links.size(); ++i) {
    EXPECT_TRUE(mesh.linked(forecast.links[i].from, forecast.links[i].to));
    if (i > 0) {
      EXPECT_LE(forecast.links[i].seconds, forecast.links[i - 1].seconds);
    }
  }
}

// Trees use links that a ring leaves idle.
TEST(ScheduleModel, TreesBeatTheRingSchemesOnAMeshWithAHole) {
  const Topology mesh = mesh_with_hole(12, 12, 2, 2, false);
  const Workload work;
  const double trees = model_of(plan_schedule(mesh, Scheme::trees, work)).run(work).seconds;
  for (const Scheme scheme : {Scheme::ring, Scheme::row_pairs, Scheme::forwarding})
    EXPECT_GE(model_of(plan_schedule(mesh, scheme)).run(work).seconds, 1.3 * trees) << name_of(scheme);
}

TEST(ScheduleModel, RefusesImpossibleCosts) {
  const Schedule schedule = plan_schedule(mesh_with_hole(2, 2, 0, 0, false), Scheme::ring);
  EXPECT_THROW(
      (void)model_of(schedule).run({.bytes = 1, .cost = {.bandwidth = 0, .latency = 0, .overhead = 0}}),
      Error);
}

}  // namespace
}  // namespace bitrift::comm
