#include "comm/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests_support.h"

namespace bitrift::comm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using tests::error_of;

Topology mesh(const std::string& size, const std::string& wrap = "neither",
              std::vector<std::string> dead = {}, std::vector<std::string> links = {}) {
  return topology_from_text({size, wrap, std::move(dead), std::move(links)});
}

TEST(Topology, NumbersChipsRowByRow) {
  const Topology topology = mesh("3x4");
  EXPECT_EQ(topology.chips(), 12);
  EXPECT_EQ(topology.chip({1, 2}), 6);
  EXPECT_EQ(topology.place(6), (Place{1, 2}));
  EXPECT_EQ(topology.name(6), "chip 6 (row 1, column 2)");
}

TEST(Topology, AMeshHasNoLinksAroundItsEdge) {
  const Topology topology = mesh("3x4");
  EXPECT_THAT(topology.neighbours(0), ElementsAre(1, 4));
  EXPECT_THAT(topology.neighbours(5), ElementsAre(1, 4, 6, 9));
  EXPECT_EQ(topology.links().size(), 2U * (3 * 3 + 2 * 4));
}

TEST(Topology, WrappingRowsLinksTheEndsOfEachRow) {
  EXPECT_THAT(mesh("3x4", "rows").neighbours(0), ElementsAre(1, 3, 4));
  EXPECT_THAT(mesh("3x4", "columns").neighbours(0), ElementsAre(1, 4, 8));
  EXPECT_THAT(mesh("3x4", "both").neighbours(0), ElementsAre(1, 3, 4, 8));
}

TEST(Topology, WrappingAddsNothingInADimensionOfOneOrTwo) {
  EXPECT_THAT(mesh("2x2", "both").neighbours(0), ElementsAre(1, 2));
  EXPECT_EQ(mesh("2x2", "both").links(), mesh("2x2").links());
  EXPECT_THAT(mesh("1x3", "both").neighbours(0), ElementsAre(1, 2));
  EXPECT_TRUE(mesh("1x1", "both").neighbours(0).empty());
}

TEST(Topology, ADeadBoardTakesItsChipsAndTheirLinks) {
  const Topology topology = mesh("4x4", "neither", {"1,1,2x2", "0,3", "1,1"});
  EXPECT_THAT(topology.dead(), ElementsAre(3, 5, 6, 9, 10));
  EXPECT_FALSE(topology.alive(5));
  EXPECT_THAT(topology.neighbours(1), ElementsAre(0, 2));
  EXPECT_TRUE(topology.neighbours(5).empty());
  EXPECT_FALSE(topology.linked(1, 5));
}

TEST(Topology, ADeadLinkIsDeadInBothDirections) {
  const Topology topology = mesh("2x3", "rows", {}, {"0,1-0,0", "0,0-0,1", "1,0-1,2"});
  EXPECT_FALSE(topology.linked(0, 1));
  EXPECT_FALSE(topology.linked(1, 0));
  EXPECT_FALSE(topology.linked(3, 5));
  EXPECT_TRUE(topology.linked(0, 2));
  EXPECT_THAT(topology.dead_links(), ElementsAre(Link{0, 1}, Link{3, 5}));
}

TEST(Topology, LosesChipsAndKeepsWhatElseIsDead) {
  const Topology mesh = topology_from_text({"3x4", "rows", {"0,0"}, {"1,1-1,2"}});
  const Topology less = mesh.without(std::vector{5, 11});
  EXPECT_EQ(less, topology_from_text({"3x4", "rows", {"0,0", "1,1", "2,3"}, {"1,1-1,2"}}));
  EXPECT_EQ(mesh.without({}), mesh);
  EXPECT_TRUE(less.linked(1, 2));
  const Topology cut = less.without_link({2, 1});
  EXPECT_FALSE(cut.linked(1, 2) || cut.linked(2, 1));
  EXPECT_EQ(cut.dead(), less.dead());
  EXPECT_EQ(cut.dead_links().size(), less.dead_links().size() + 1);
}

TEST(Topology, NamesTheChipThatCannotBeReached) {
  const Topology corner = mesh("3x3", "neither", {"0,1", "1,0"});
  EXPECT_EQ(corner.unreachable(), 2);
  EXPECT_THAT(error_of([&] { corner.require_connected(); }),
              HasSubstr("chip 2 (row 0, column 2) cannot be reached from chip 0 (row 0, column 0)"));
  EXPECT_THAT(error_of([] { mesh("1x2", "neither", {}, {"0,0-0,1"}).require_connected(); }),
              HasSubstr("chip 1 (row 0, column 1) cannot be reached"));
  EXPECT_FALSE(mesh("3x3", "both", {"0,1", "1,0"}).unreachable());
}

TEST(Topology, OneLiveChipIsConnectedAndNoneIsRefused) {
  EXPECT_NO_THROW(mesh("1x2", "neither", {"0,1"}).require_connected());
  EXPECT_THAT(error_of([] { mesh("2x2", "neither", {"0,0,2x2"}).require_connected(); }),
              HasSubstr("no chip of the mesh of 2x2 is alive"));
}

TEST(Topology, RefusesTextsThatMeanNothing) {
  for (const char* size : {"", "4", "4x", "x4", "4x4x4", "4x-4", "4 x4", "0x4", "99999999999x1", "4x4 "}) {
    EXPECT_NE(error_of([&] { (void)mesh(size); }), "") << size;
  }
  EXPECT_THAT(error_of([] { (void)mesh("4y4"); }), HasSubstr("mesh '4y4': expected ROWSxCOLUMNS"));
  EXPECT_THAT(error_of([] { (void)mesh("65x64"); }), HasSubstr("expected 1 to 4096 chips"));
  EXPECT_THAT(error_of([] { (void)mesh("4x4", "rings"); }),
              HasSubstr("wrap 'rings': expected neither, rows"));
  for (const char* dead : {"1", "1,1,2", "1,1,2x", "-1,1", "1,1,0x1", "4,0", "3,3,1x2", "1,1,2147483647x1"}) {
    EXPECT_NE(error_of([&] { (void)mesh("4x4", "both", {dead}); }), "") << dead;
  }
  for (const char* link : {"0,0", "0,0-0", "0,0-0,2", "0,0-0,0", "0,0-4,0", "0,0-0,3"}) {
    EXPECT_NE(error_of([&] { (void)mesh("4x4", "columns", {}, {link}); }), "") << link;
  }
}

TEST(Topology, IsTheSameAfterItWasWrittenAndRead) {
  const Topology topology = mesh("4x5", "rows", {"1,1,2x2", "3,4"}, {"0,0-0,4"});
  const auto json = to_json(topology);
  EXPECT_EQ(json.dump(),
            R"({"columns":5,"dead":[6,7,11,12,19],"dead_links":[[0,4]],"rows":4,"wrap":"rows"})");
  EXPECT_EQ(topology_from_json(json), topology);
}

TEST(Topology, RefusesJsonThatIsNoTopology) {
  const nlohmann::json good = to_json(mesh("2x2"));
  const auto refused = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json bad = good;
    bad[key] = value;
    return error_of([&] { (void)topology_from_json(bad); });
  };
  EXPECT_THAT(refused("rows", -1), HasSubstr("'rows' holds -1"));
  EXPECT_NE(refused("rows", 2.5), "");
  EXPECT_NE(refused("columns", 4097), "");
  EXPECT_NE(refused("columns", 2049), "");
  EXPECT_NE(refused("wrap", "x"), "");
  EXPECT_NE(refused("dead", nlohmann::json::array({4})), "");
  EXPECT_NE(refused("dead_links", nlohmann::json::parse("[[0,3]]")), "");
  EXPECT_NE(refused("dead_links", nlohmann::json::parse("[[0]]")), "");
  EXPECT_NE(refused("more", 1), "");
  for (const auto& [key, unused] : good.items()) {
    nlohmann::json bad = good;
    bad.erase(key);
    EXPECT_THAT(error_of([&] { (void)topology_from_json(bad); }), HasSubstr("'" + key + "' is missing"));
  }
}

}  // namespace
}  // namespace bitrift::comm
