#include "train/parallel/optimizer_shard.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include "nn/make_layers.h"
#include "train/state/session.h"
#include "train/state/state_copy.h"
#include "unit/train/small_session.h"

namespace bitrift::train::optimizer_shard_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SpreadBySize, TheLargestComeFirstEachToTheLeastLoadedPart) {
  // 40 to part 0, 30 to 1, 20 to 2, 15 to 2 (35), 10 to 1 (40), 5 to 2 (40).
  EXPECT_THAT(spread_by_size({5, 30, 15, 40, 10, 20}, 3), ElementsAre(2, 1, 2, 0, 1, 2));
}

TEST(SpreadBySize, EqualOnesGoInTheirOrderToTheLowestPart) {
  EXPECT_THAT(spread_by_size({7, 7, 7, 7}, 2), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(spread_by_size({0, 0}, 3), ElementsAre(0, 0));
}

TEST(SpreadBySize, PartsMayGetNothing) {
  EXPECT_THAT(spread_by_size({3, 4}, 4), ElementsAre(1, 0));
  EXPECT_THAT(spread_by_size({}, 4), IsEmpty());
  EXPECT_THAT(spread_by_size({3, 4}, 1), ElementsAre(0, 0));
}

TEST(SpreadBySize, NoPartHasMoreThanTheMeanAndTheLargest) {
  std::mt19937 random(5);  // NOLINT(cert-msc51-cpp,cert-msc32-c): the same sizes in every run
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<std::uint64_t> sizes(1 + random() % 40);
    for (std::uint64_t& size : sizes) size = random() % 1000;
    const int parts = 1 + static_cast<int>(random() % 8);
    const std::vector<int> owners = spread_by_size(sizes, parts);
    std::vector<std::uint64_t> loads(static_cast<std::size_t>(parts));
    for (std::size_t i = 0; i < sizes.size(); ++i) loads[static_cast<std::size_t>(owners[i])] += sizes[i];
    const std::uint64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
    EXPECT_LE(*std::ranges::max_element(loads),
              sum / static_cast<std::uint64_t>(parts) + *std::ranges::max_element(sizes));
  }
}

record::TrainingSpec training(record::OptimizerName name) {
  record::TrainingSpec spec;
  spec.optimizer.name = name;
  spec.optimizer.momentum = 0.9;
  spec.optimizer.weight_decay = 0.01;
  spec.seed = 3;
  return spec;
}

Session make_session(const record::TrainingSpec& spec, OptimizerShard shard) {
  auto layers = nn::make_layers({.hidden = {8}, .batch_norm = true, .input = {1, 2, 2}, .classes = 2});
  const std::size_t count = layers.size();
  return {nn::Stage(std::move(layers), 0, count, spec.seed), spec, shard};
}

// What replicas in one process do: all have the gradients, and each parameter is copied from its owner.
void exchange(std::vector<Session>& replicas) {
  const torch::NoGradGuard no_grad;
  const std::vector<int>& owners = replicas[0].owners();
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const torch::Tensor value =
        replicas[static_cast<std::size_t>(owners[i])].optimizer().parameters()[i].value;
    for (Session& replica : replicas) {
      torch::Tensor target = replica.optimizer().parameters()[i].value;
      if (target.data_ptr() != value.data_ptr()) target.copy_(value);
    }
  }
}

TEST(OptimizerShard, ShardsAreThePartsOfTheWholeStateAndUpdateAlike) {
  for (const auto name :
       {record::OptimizerName::sgd, record::OptimizerName::adam, record::OptimizerName::adamw}) {
    const record::TrainingSpec spec = training(name);
    Session whole = make_session(spec, {});
    std::vector<Session> replicas;
    constexpr int parts = 3;
    replicas.reserve(parts);
    for (int part = 0; part < parts; ++part) replicas.push_back(make_session(spec, {part, parts}));
    for (int step = 0; step < 3; ++step) {
      small_session::take_step(whole);
      for (Session& replica : replicas) small_session::take_step(replica);
      exchange(replicas);
    }
    const StateCopy all = copy_state(whole);
    std::multiset<std::string> held;
    for (Session& replica : replicas) {
      for (const auto& [path, bytes] : copy_state(replica)) {
        EXPECT_EQ(bytes, all.at(path)) << path;
        if (path.starts_with("optimizer/")) held.insert(path);
      }
    }
    std::multiset<std::string> made;
    for (const auto& [path, bytes] : all) {
      if (path.starts_with("optimizer/")) made.insert(path);
    }
    EXPECT_FALSE(made.empty());
    EXPECT_EQ(held, made);
  }
}

TEST(OptimizerShard, ARankThatHoldsNothingStillKnowsThatThereIsState) {
  const record::TrainingSpec spec = training(record::OptimizerName::adam);
  Session session = make_session(spec, {99, 100});
  EXPECT_FALSE(session.optimizer().has_state());
  small_session::take_step(session);
  EXPECT_TRUE(session.optimizer().state().empty());
  EXPECT_TRUE(session.optimizer().has_state());
  session.optimizer().clear();
  EXPECT_FALSE(session.optimizer().has_state());
}

}  // namespace
}  // namespace bitrift::train::optimizer_shard_test
