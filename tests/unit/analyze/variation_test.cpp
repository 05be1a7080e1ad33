#include "analyze/variation.h"

#include <gmock/gmock.h>

#include "design/kind/bit_strata.h"

namespace bitrift::analyze::variation_test {
namespace {

using record::OutcomeClass;
using record::Reason;

StratumSeen cell_of(std::uint64_t bits, const std::vector<bool>& sdc) {
  StratumSeen cell;
  cell.bits = bits;
  for (const bool one : sdc) cell.outcomes.push_back(one ? Reason::low_test_accuracy : Reason::within_noise);
  return cell;
}

const Variation& of(const std::vector<Variation>& all, const std::string& between, OutcomeClass outcome) {
  for (const Variation& one : all) {
    if (one.between == between && one.outcome == outcome) return one;
  }
  throw std::logic_error("no such variation");
}

design::CampaignSpec spec(int orders) {
  design::CampaignSpec spec;
  spec.orders = orders;
  spec.arms = {{"serial", {}}};
  spec.strata.edit<design::BitStrata>().roles = {"weight"};
  spec.strata.edit<design::BitStrata>().fields = {"sign"};
  return spec;
}

TEST(Variation, OrdersTakeTurnsDrawByDraw) {
  Observations seen;
  std::vector<bool> sdc;
  for (int i = 0; i < 200; ++i) sdc.push_back(i % 2 == 1);  // every draw of order 1, none of order 0
  seen.cells[{"serial", "weight.sign"}] = cell_of(1000, sdc);
  const auto found = variations_of(seen, spec(2));
  ASSERT_EQ(found.size(), 3U);
  const Variation& one = of(found, "orders", OutcomeClass::sdc);
  EXPECT_EQ(one.levels, 2U);
  EXPECT_GT(one.found.deviation, 0.6);
  EXPECT_LT(one.found.p, 1e-6);
  EXPECT_EQ(of(found, "orders", OutcomeClass::crash).found.deviation, 0);
  EXPECT_THAT(table(found), ::testing::HasSubstr("orders of 2 serial: SDC"));
}

TEST(Variation, EqualOrdersDoNotVary) {
  Observations seen;
  std::vector<bool> sdc;
  for (int i = 0; i < 200; ++i) sdc.push_back(i % 20 < 2);
  seen.cells[{"serial", "weight.sign"}] = cell_of(1000, sdc);
  EXPECT_EQ(of(variations_of(seen, spec(2)), "orders", OutcomeClass::sdc).found.deviation, 0);
  EXPECT_TRUE(variations_of(seen, spec(1)).empty());
  EXPECT_EQ(table(std::vector<Variation>()), "");
}

TEST(Variation, BasesOfOneArmAreCompared) {
  design::CampaignSpec two = spec(1);
  two.bases = {{.name = "a"}, {.name = "b"}};
  two.files = {{0, "", "base-a"}, {1, "", "base-b"}};
  two.arms = {{"serial@a", {}}, {"serial@b", {}}};
  two.arms[0].stem = two.arms[1].stem = "serial";
  two.arms[1].file = 1;
  Observations seen;
  seen.cells[{"serial@a", "weight.sign"}] = cell_of(1000, std::vector<bool>(100, false));
  seen.cells[{"serial@b", "weight.sign"}] = cell_of(1000, std::vector<bool>(100, true));
  const auto found = variations_of(seen, two);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].arm, "serial");
  EXPECT_GT(of(found, "bases", OutcomeClass::sdc).found.deviation, 0.5);
}

}  // namespace
}  // namespace bitrift::analyze::variation_test
