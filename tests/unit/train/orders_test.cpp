// Golden runs of several data orders in one trainer.
#include <cmath>
#include <map>

#include <gmock/gmock.h>

#include "core/file.h"
#include "train/run/propagation_runs.h"
#include "train/run/trainer.h"

namespace bitrift::train::orders_test {
namespace {

using testing::ElementsAre;
using testing::Optional;

constexpr std::uint64_t orders[] = {5, 6};
constexpr std::int64_t epochs = 2;

record::TrainingSpec spec_of() {
  record::TrainingSpec spec;
  spec.model = {.hidden = {8}};
  spec.data = {.train_samples = 128, .test_samples = 50};
  spec.optimizer.learning_rate = 0.1;
  spec.optimizer.momentum = 0.9;
  spec.batch_size = 32;
  spec.epochs = 4;
  spec.seed = 3;
  return spec;
}

record::PropagationSpec wanted() { return {.steps = {0, 2, 5}}; }

RunOptions options_of(std::uint64_t order, bool keep_golden, bool early_end) {
  RunOptions options;
  options.epochs = epochs;
  options.order = order;
  options.keep_golden = keep_golden;
  options.early_end = early_end;
  return options;
}

std::string text(record::RunResult result) {
  result.seconds = 0;
  return record::to_json(result).dump();
}

// A trainer as a worker has it, with its base.
class Orders : public testing::Test {
 protected:
  Orders() : trainer_(spec_of(), {}, mpi::Communicator(), true) {
    trainer_.save(base_, {});
    trainer_.load({base_});
    trainer_.remember_base(ckpt::Reader(base_));
  }

  void start(std::uint64_t order) {
    trainer_.reset(base_, {}, {});
    trainer_.set_seed(order);
  }
  record::RunResult golden(std::uint64_t order) {
    start(order);
    return trainer_.run(options_of(order, true, false));
  }
  record::RunResult trial(std::uint64_t order) {
    start(order);
    return trainer_.run(options_of(order, false, true));
  }

  TemporaryFolder folder_{"orders"};
  std::filesystem::path base_ = folder_.path() / "base.h5";
  Trainer trainer_;
};

TEST_F(Orders, ARunMeetsTheGoldenRunOfItsOwnDataOrder) {
  std::map<std::uint64_t, record::RunResult> kept;
  for (const std::uint64_t order : orders) kept[order] = golden(order);
  EXPECT_NE(kept[5].final_digest, kept[6].final_digest);
  for (const std::uint64_t order : {6U, 5U, 6U}) {
    record::RunResult result = trial(order);
    EXPECT_THAT(result.returned_step, Optional(1));
    result.returned_step.reset();
    EXPECT_EQ(text(result), text(kept[order]));
    EXPECT_THAT(result.test_targets, Optional(50));
  }
}

TEST_F(Orders, ARunWithoutAGoldenRunOfItsOrderGoesToItsEnd) {
  const record::RunResult alone = trial(6);
  EXPECT_EQ(alone.returned_step, std::nullopt);
  (void)golden(5);
  EXPECT_EQ(text(trial(6)), text(alone));
}

TEST_F(Orders, ASeedInTheFileDoesNotChooseTheGoldenRun) {
  for (const std::uint64_t order : orders) (void)golden(order);
  start(6);
  record::RunResult result = trainer_.run(options_of(5, false, true));
  EXPECT_EQ(result.returned_step, std::nullopt);
  EXPECT_EQ(text(result), text(golden(6)));
}

TEST_F(Orders, AGoldenRunReplacesThatOfItsOrderAndNoOther) {
  for (const std::uint64_t order : orders) (void)golden(order);
  start(5);
  RunOptions within = options_of(5, true, false);
  within.steps = 3;  // ends within an epoch: none to follow
  (void)trainer_.run(within);
  EXPECT_EQ(trial(5).returned_step, std::nullopt);
  EXPECT_THAT(trial(6).returned_step, Optional(1));
}

TEST_F(Orders, AGoldenRunDoesNotEndEarly) {
  const std::string first = text(golden(5));
  start(5);
  EXPECT_EQ(text(trainer_.run(options_of(5, true, true))), first);
  EXPECT_THAT(trial(5).returned_step, Optional(1));
}

TEST_F(Orders, CappedLossIsAtMostTheLossAndTheLogarithmOfTheClasses) {
  const record::RunResult result = golden(5);
  for (const record::Evaluation& evaluation : result.replicas[0]) {
    ASSERT_TRUE(evaluation.test_capped_loss.has_value());
    EXPECT_GT(*evaluation.test_capped_loss, 0);
    EXPECT_LT(*evaluation.test_capped_loss, std::log(10.0));
    EXPECT_LE(*evaluation.test_capped_loss, evaluation.test_loss);
  }
}

// What a worker does with requests of several orders.
class OrdersThatStray : public Orders {
 protected:
  record::RunResult keep(PropagationRuns& runs, std::uint64_t order) {
    start(order);
    RunOptions options = options_of(order, true, false);
    options.states = runs.golden(wanted(), epochs, order);
    return trainer_.run(options);
  }
  // A run whose file holds the seed `run`, compared with the golden run of `order`.
  record::RunResult stray(PropagationRuns& runs, std::uint64_t run, std::uint64_t order) {
    start(run);
    return runs.trial(options_of(order, false, true), wanted(),
                      {.base = [&, order] { start(order); }, .trial = [&, run] { start(run); }});
  }
};

TEST_F(OrdersThatStray, StatesAreComparedWithThoseOfTheOrderAskedFor) {
  std::vector<std::string> fresh;
  for (const std::uint64_t order : orders) {
    PropagationRuns runs(trainer_);
    (void)keep(runs, order);
    fresh.push_back(text(stray(runs, 7, order)));
  }
  EXPECT_NE(fresh[0], fresh[1]);
  PropagationRuns runs(trainer_);
  for (const std::uint64_t order : orders) (void)keep(runs, order);
  for (const std::size_t i : {0U, 1U, 1U, 0U}) EXPECT_EQ(text(stray(runs, 7, orders[i])), fresh[i]);
}

TEST_F(OrdersThatStray, AGoldenRunDoesNotStrayFromItself) {
  PropagationRuns runs(trainer_);
  for (const std::uint64_t order : orders) (void)keep(runs, order);
  for (const std::uint64_t order : {5U, 6U, 5U}) {
    const record::RunResult result = stray(runs, order, order);
    EXPECT_THAT(result.returned_step, Optional(1));
    ASSERT_TRUE(result.propagation.has_value());
    std::vector<std::int64_t> steps;
    for (const record::StepDrift& drift : *result.propagation) {
      steps.push_back(drift.step);
      EXPECT_THAT(drift.tensors, testing::IsEmpty());
    }
    EXPECT_THAT(steps, ElementsAre(0, 2, 5, 8));
  }
}

TEST_F(OrdersThatStray, WithoutAGoldenRunThereIsNothingToCompareWith) {
  PropagationRuns runs(trainer_);
  EXPECT_THROW((void)stray(runs, 7, 5), Error);
}

}  // namespace
}  // namespace bitrift::train::orders_test
