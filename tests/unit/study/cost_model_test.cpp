#include "study/cost/cost_model.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "core/error.h"
#include "unit/scratch.h"

namespace bitrift::study::cost_model_test {
namespace {

std::vector<SaveSample> samples_of(const CostModel& truth, const std::vector<int>& ranks, double noise) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0, noise);
  std::vector<SaveSample> samples;
  for (const int r : ranks) {
    for (const double bytes : {5e5, 2e7, 2e8})
      samples.push_back({r, bytes, truth.seconds(r, bytes) * std::exp(normal(random))});
  }
  return samples;
}

TEST(CostModel, ExactSavesOfTwoRankCountsGiveTheirCoefficients) {
  for (const SaveRoute route : {SaveRoute::gather, SaveRoute::shared}) {
    const CostModel truth{route, 2, 4e-3, 1.5e-3, 7e-10, 9e-10};
    const CostModel found = fit_cost(route, 2, samples_of(truth, {1, 2}, 0));
    EXPECT_NEAR(found.fixed, truth.fixed, 1e-9);
    EXPECT_NEAR(found.rank, truth.rank, 1e-9);
    EXPECT_NEAR(found.byte, truth.byte, 1e-15);
    EXPECT_NEAR(found.spread, truth.spread, 1e-15);
    EXPECT_NEAR(found.seconds(4, 1e9), truth.seconds(4, 1e9), 1e-6);
  }
}

TEST(CostModel, NoisySavesStillPredictMoreRanks) {
  for (const SaveRoute route : {SaveRoute::gather, SaveRoute::shared}) {
    const CostModel truth{route, 8, 4e-3, 1.5e-3, 7e-10, 9e-10};
    const CostModel found = fit_cost(route, 8, samples_of(truth, {1, 2}, 0.05));
    for (const int ranks : {3, 4})
      EXPECT_NEAR(found.seconds(ranks, 2e8) / truth.seconds(ranks, 2e8), 1, 0.15) << name_of(route);
  }
}

TEST(CostModel, NoCoefficientIsNegative) {
  // Faster with two ranks than any of the terms allows.
  const std::vector<SaveSample> samples = {{1, 1e6, 0.02}, {1, 1e8, 0.5}, {2, 1e6, 0.01}, {2, 1e8, 0.3}};
  const CostModel found = fit_cost(SaveRoute::gather, 2, samples);
  for (const double value : {found.fixed, found.rank, found.byte, found.spread}) EXPECT_GE(value, 0);
  EXPECT_EQ(found.rank, 0);
  EXPECT_EQ(found.spread, 0);
}

TEST(CostModel, TheLeastSquaresAreThose) {
  // Two unknowns remain: minimised by hand, sum (a x_i + b y_i - 1)^2 with x = 1 / t, y = B / t.
  const std::vector<SaveSample> samples = {{1, 1e6, 0.01}, {1, 1e8, 0.2}, {2, 1e6, 0.01}, {2, 1e8, 0.2}};
  const CostModel found = fit_cost(SaveRoute::gather, 2, samples);
  const double byte = (0.2 - 0.01) / (1e8 - 1e6);
  EXPECT_NEAR(found.byte, byte, 1e-15);
  EXPECT_NEAR(found.fixed, 0.01 - byte * 1e6, 1e-9);
}

TEST(CostModel, NeedsTwoSizesAndTwoRankCounts) {
  EXPECT_ERROR((void)fit_cost(SaveRoute::gather, 2, {{1, 1e6, 0.1}, {2, 1e6, 0.2}}), bad_input, "two sizes");
  EXPECT_ERROR((void)fit_cost(SaveRoute::gather, 2, {{1, 1e6, 0.1}, {1, 2e6, 0.2}}), bad_input, "2 and 1");
}

TEST(ModelledSeconds, AreBoundedByTheSlowestResource) {
  const Cluster cluster{
      .bytes = 0, .write_all = 1e11, .write_machine = 2e9, .send_machine = 1e10, .ranks_machine = 8};
  const CostModel gather{SaveRoute::gather, 2, 0.01, 0, 1, 1};
  // One machine writes all: 1e11 / 2e9 = 50 s, and 1e11 / 1e10 = 10 s of messages for all but 8 of 512 ranks.
  EXPECT_NEAR(modelled_seconds(gather, cluster, 0, 512, 1e11), 0.01 + 50 + 10 * 504.0 / 512, 1e-9);
  const CostModel shared{SaveRoute::shared, 2, 0.01, 0.001, 1, 1};
  // 64 machines could write 128 GB/s; the file system takes 100.
  EXPECT_NEAR(modelled_seconds(shared, cluster, 5.12e-10, 512, 1e11), 0.01 + 0.511 + 0.1 + 1, 1e-9);
  // Two machines: 4 GB/s.
  EXPECT_NEAR(modelled_seconds(shared, cluster, 0, 16, 1e11), 0.01 + 0.015 + 25, 1e-9);
}

}  // namespace
}  // namespace bitrift::study::cost_model_test
