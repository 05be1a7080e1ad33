#include "comm/graph/bound_certificate.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "mesh_graph.h"

namespace bitrift::comm {
namespace {

TEST(BoundCertificate, IsExactOnBothSidesWhereThePackingIsPerfect) {
  const BoundCertificate bound = certify_bound(mesh_graph(4, 4, 2, 2, false));
  EXPECT_EQ(bound.strength.tau, (Fraction{12, 11}));
  EXPECT_EQ(bound.packing.trees.size(), 12U);
  EXPECT_DOUBLE_EQ(bound.gap(), 0);
}

TEST(BoundCertificate, IsWithinFivePercentOnEveryMeshWithAHole) {
  for (const bool wrap : {false, true})
    for (const int size : {3, 5, 8, 12, 16})
      for (const int hole : {0, 1, 2}) {
        const Graph mesh = mesh_graph(size, size + 1, hole, hole, wrap);
        const BoundCertificate bound = certify_bound(mesh);
        EXPECT_EQ(partition_ratio(mesh, bound.strength.part), bound.strength.tau);
        EXPECT_GE(bound.gap(), -1e-12);
        EXPECT_LE(bound.gap(), 0.05) << size << " - " << hole << (wrap ? " torus" : " mesh");
      }
}

TEST(BoundCertificate, NeedsTwoChips) {
  EXPECT_THROW((void)certify_bound(mesh_graph(1, 1, 0, 0, false)), Error);
}

}  // namespace
}  // namespace bitrift::comm
