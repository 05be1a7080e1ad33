#include "analyze/rates/unpaired.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace bitrift::analyze::unpaired_test {
namespace {

// scipy.stats.fisher_exact([[second hits, misses], [first hits, misses]]) of SciPy, and the same with
// alternative="greater".
TEST(StratifiedFisher, OfOneStratumIsFishersExactTest) {
  const FisherTest few = stratified_fisher({{1, 6, 8, 10}});
  EXPECT_NEAR(few.two_sided, 0.034965034965034975, 1e-14);
  EXPECT_NEAR(few.greater, 0.024475524475524483, 1e-14);
  const FisherTest some = stratified_fisher({{3, 100, 12, 100}});
  EXPECT_NEAR(some.two_sided, 0.028671314973177094, 1e-14);
  EXPECT_NEAR(some.greater, 0.014335657486588547, 1e-14);
  const FisherTest many = stratified_fisher({{100, 1000, 150, 1000}});
  EXPECT_NEAR(many.two_sided, 0.0008950875386906894, 1e-14);
  EXPECT_NEAR(many.greater, 0.0004475437693453447, 1e-14);
}

TEST(StratifiedFisher, OfTheOtherDirectionIsLarge) {
  // fisher_exact([[1, 5], [8, 2]], alternative="greater")
  EXPECT_NEAR(stratified_fisher({{8, 10, 1, 6}}).greater, 0.9991258741258742, 1e-13);
}

TEST(StratifiedFisher, CountsRareHitsMore) {
  EXPECT_EQ(weight_of_hit(0, 11), 8U);  // 2 / sqrt(1/13 * 12/13) = 7.5
  EXPECT_EQ(weight_of_hit(6, 12), 4U);
  EXPECT_EQ(weight_of_hit(7, 7), 6U);
}

// numpy.convolve of scipy.stats.hypergeom.pmf, with as many zeros between its values as the weight asks for.
TEST(StratifiedFisher, OverStrataAddsWeightedHits) {
  // The data of mantelhaen.test(Rabbits) of R's example (Mantel, JASA 58, 1963).
  const FisherTest rabbits =
      stratified_fisher({{0, 5, 0, 6}, {0, 6, 3, 6}, {2, 6, 6, 6}, {6, 6, 5, 6}, {5, 5, 2, 2}});
  EXPECT_NEAR(rabbits.greater, 0.01997245179063361, 1e-14);
  EXPECT_NEAR(rabbits.two_sided, 2 * 0.01997245179063361, 1e-14);
  const FisherTest three = stratified_fisher({{3, 100, 12, 100}, {5, 40, 6, 80}, {0, 30, 2, 30}});
  EXPECT_NEAR(three.greater, 0.0458639119482345, 1e-13);
  // With equal weights: the exact Mantel-Haenszel test.
  const FisherTest two = stratified_fisher({{2, 6, 6, 6}, {3, 6, 5, 6}});
  EXPECT_NEAR(two.greater, 0.015610651974288335, 1e-14);
  EXPECT_NEAR(two.two_sided, 0.031221303948576674, 1e-14);
}

TEST(StratifiedFisher, SaysNothingWithoutHitsOrWithoutASecondSample) {
  EXPECT_DOUBLE_EQ(stratified_fisher({{0, 50, 0, 60}}).greater, 1);
  EXPECT_DOUBLE_EQ(stratified_fisher({{50, 50, 60, 60}}).two_sided, 1);
  EXPECT_DOUBLE_EQ(stratified_fisher({{7, 50, 0, 0}}).greater, 1);
  EXPECT_DOUBLE_EQ(stratified_fisher({}).two_sided, 1);
  const FisherTest with_unseen = stratified_fisher({{3, 100, 12, 100}, {0, 0, 5, 5}});
  EXPECT_NEAR(with_unseen.greater, 0.014335657486588547, 1e-14);
}

TEST(StratifiedFisher, OfLargeSamplesTakesNoTimeAndGivesZeroOnlyFarOut) {
  const std::vector<TwoCounts> equal(9, {50'000, 100'000, 50'000, 100'000});
  EXPECT_NEAR(stratified_fisher(equal).greater, 0.5, 0.01);
  EXPECT_EQ(stratified_fisher({{10'000, 100'000, 90'000, 100'000}}).two_sided, 0);
}

TEST(StratifiedFisher, RefusesMoreHitsThanTrials) {
  EXPECT_THROW((void)stratified_fisher({{3, 2, 0, 5}}), Error);
  EXPECT_THROW((void)stratified_fisher({{0, 2, 6, 5}}), Error);
}

}  // namespace
}  // namespace bitrift::analyze::unpaired_test
