#include "comm/plan/scheme_model.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "mesh_graph.h"

namespace bitrift::comm {
namespace {

TEST(SchemeModel, PlansTreesForEachWorkloadAndTheOthersOnce) {
  const Topology mesh = mesh_with_hole(4, 4, 2, 2, false);
  const Fraction tau = strength_of(graph_of(mesh)).tau;
  SchemeModel trees(mesh, Scheme::trees, tau), ring(mesh, Scheme::ring, tau);
  for (const double bytes : {1e5, 102e6}) {
    const Workload work = {.bytes = bytes};
    for (SchemeModel* model : {&trees, &ring}) {
      const double seconds = model->run(work).seconds;
      const Schedule again = plan_schedule(mesh, model->schedule().scheme(), work);
      EXPECT_EQ(model->schedule(), again);
      EXPECT_EQ(seconds, ScheduleModel(again, tau).run(work).seconds);
    }
  }
}

TEST(WholeMeshModel, ModelsTheSameMeshWithoutFailures) {
  const Topology whole = mesh_with_hole(4, 4, 0, 0, true);
  SchemeModel expected(whole, Scheme::rings_2d, strength_of(graph_of(whole)).tau);
  const double seconds = expected.run({}).seconds;
  EXPECT_EQ(WholeMeshModel(mesh_with_hole(4, 4, 2, 2, true), Scheme::rings_2d).seconds({}), seconds);
  const Topology cut(4, 4, Wrap::both, {}, {{{0, 0}, {0, 1}}});
  EXPECT_EQ(WholeMeshModel(cut, Scheme::rings_2d).seconds({}), seconds);
}

TEST(WholeMeshModel, HasNothingToSayWithoutFailuresOrAScheme) {
  EXPECT_EQ(WholeMeshModel(mesh_with_hole(4, 4, 0, 0, false), Scheme::ring).seconds({}), std::nullopt);
  EXPECT_EQ(WholeMeshModel(mesh_with_hole(4, 4, 2, 2, false), Scheme::other).seconds({}), std::nullopt);
  WholeMeshModel odd(mesh_with_hole(3, 3, 1, 1, false), Scheme::ring);  // no ring through nine chips
  EXPECT_EQ(odd.seconds({}), std::nullopt);
  EXPECT_EQ(odd.seconds({}), std::nullopt);
}

}  // namespace
}  // namespace bitrift::comm
