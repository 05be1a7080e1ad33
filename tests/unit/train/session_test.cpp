#include "train/state/session.h"

#include <limits>

#include <gmock/gmock.h>

#include "nn/make_layers.h"
#include "tests_support.h"
#include "train/parallel/strategy.h"
#include "train/run/trainer.h"
#include "train/state/load_checkpoint.h"
#include "train/state/save_checkpoint.h"
#include "train/step/feed.h"
#include "train/step/loss.h"
#include "unit/train/small_session.h"

namespace bitrift::train::session_test {
namespace {

using small_session::make_session;
using small_session::take_step;
using testing::AllOf;
using testing::HasSubstr;

record::TrainingSpec spec_of(const std::string& optimizer) {
  record::TrainingSpec spec;
  spec.model = {.hidden = {8}, .norm = record::Norm::batch};
  spec.optimizer.name = parse_named<record::OptimizerName>(optimizer);
  spec.optimizer.learning_rate = 0.1;
  spec.optimizer.momentum = optimizer == "sgd" ? 0.9 : 0;
  spec.batch_size = 64;
  spec.epochs = 1;
  spec.seed = 3;
  return spec;
}

std::vector<std::string> paths(Session& session) {
  std::vector<std::string> result;
  for (const StateTensor& tensor : session.tensors()) result.push_back(tensor.meta.path);
  return result;
}

std::string temporary(const char* name) { return testing::TempDir() + name; }

void save(const std::string& path, Session& session, const record::TrainingSpec& spec) {
  KillPoint none;
  BackgroundSave behind;
  save_session({path}, behind, session, spec, Layout(ReplicaMap(1, 1), mpi::Communicator()), none);
}

char* memory(const StateTensor& tensor) {
  return static_cast<char*>(tensor.number != nullptr ? tensor.number : tensor.value.data_ptr());
}

TEST(Session, HoldsWhatAFileOfItHolds) {
  for (const std::string optimizer : {"sgd", "adam"}) {
    Session session = make_session(spec_of(optimizer));
    for (const bool stepped : {false, true}) {
      if (stepped) take_step(session);
      std::vector<ckpt::TensorMeta> mine;
      for (const StateTensor& tensor : session.tensors()) mine.push_back(tensor.meta);
      EXPECT_EQ(mine, session.file_tensors(stepped)) << optimizer;
    }
    EXPECT_THAT(paths(session), testing::Contains(optimizer == "sgd" ? "optimizer/momentum_buffer/bn1.weight"
                                                                     : "optimizer/exp_avg_sq/bn1.weight"));
    EXPECT_THAT(paths(session), testing::Not(testing::Contains(HasSubstr("optimizer/step/bn1.running"))));
  }
}

TEST(Session, EveryByteOfItEntersTheDigest) {
  Session session = make_session(spec_of("adam"));
  take_step(session);
  const std::string before = state_digest(session.digest_lines(true));
  for (const StateTensor& tensor : session.tensors()) {
    auto* bytes = reinterpret_cast<unsigned char*>(memory(tensor));
    for (const std::uint64_t at : {std::uint64_t{0}, tensor.meta.bytes() - 1}) {
      bytes[at] ^= 1;
      EXPECT_NE(state_digest(session.digest_lines(true)), before) << tensor.meta.path;
      bytes[at] ^= 1;
    }
  }
  EXPECT_EQ(state_digest(session.digest_lines(true)), before);
}

TEST(Session, DigestDoesNotDependOnTheOrderOfItsParts) {
  Session session = make_session(spec_of("sgd"));
  std::vector<std::string> lines = session.digest_lines(true);
  const std::string digest = state_digest(lines);
  std::reverse(lines.begin(), lines.end());
  EXPECT_EQ(state_digest(lines), digest);
}

TEST(Session, SeesNonFiniteValuesWhereverTheyAre) {
  Session session = make_session(spec_of("adam"));
  take_step(session);
  EXPECT_FALSE(session.nonfinite());
  for (const StateTensor& tensor : session.tensors()) {
    if (tensor.meta.format.kind != NumberKind::floating) continue;
    char* bytes = memory(tensor);
    const std::vector<char> saved(bytes, bytes + tensor.meta.bytes());
    if (tensor.meta.format.bytes == 8) {
      const double nan = std::numeric_limits<double>::quiet_NaN();
      std::memcpy(bytes, &nan, sizeof nan);
    } else {
      const float infinity = -std::numeric_limits<float>::infinity();
      std::memcpy(bytes + tensor.meta.bytes() - sizeof infinity, &infinity, sizeof infinity);
    }
    EXPECT_TRUE(session.nonfinite()) << tensor.meta.path;
    std::copy(saved.begin(), saved.end(), bytes);
  }
}

TEST(Load, LeavesNothingOfTheLastRun) {
  for (const std::string optimizer : {"sgd", "adam"}) {
    const record::TrainingSpec spec = spec_of(optimizer);
    Session session = make_session(spec);
    take_step(session);
    const std::string path = temporary("session.h5");
    save(path, session, spec);
    const std::string digest = state_digest(session.digest_lines(true));
    take_step(session);
    const std::string future = state_digest(session.digest_lines(true));

    for (const StateTensor& tensor : session.tensors())
      std::memset(memory(tensor), 0xff, tensor.meta.bytes());
    for (const nn::Slot& slot : session.stage().slots()) {
      if (slot.trained) slot.value.mutable_grad() = torch::full(slot.shape, std::nan(""));
    }
    load_session(ckpt::Reader(path), session, {});
    EXPECT_EQ(state_digest(session.digest_lines(true)), digest) << optimizer;
    take_step(session);
    EXPECT_EQ(state_digest(session.digest_lines(true)), future) << optimizer;
    std::remove(path.c_str());
  }
}

TEST(Load, AFileFromBeforeTheFirstStepHasNoOptimizerState) {
  const record::TrainingSpec spec = spec_of("sgd");
  Session session = make_session(spec);
  const std::string path = temporary("fresh.h5");
  save(path, session, spec);
  const std::string digest = state_digest(session.digest_lines(true));
  take_step(session);
  load_session(ckpt::Reader(path), session, {});
  EXPECT_TRUE(session.optimizer().state().empty());
  EXPECT_EQ(state_digest(session.digest_lines(true)), digest);
  std::remove(path.c_str());
}

TEST(Load, AFileOfAnotherModelNamesTheTensor) {
  record::TrainingSpec spec = spec_of("sgd");
  Session session = make_session(spec);
  const std::string path = temporary("other.h5");
  save(path, session, spec);
  auto layers = nn::make_layers({.hidden = {9}, .batch_norm = true, .input = {1, 2, 2}, .classes = 2});
  Session wider(nn::Stage(std::move(layers), 0, 2, 1), spec);
  EXPECT_THAT(tests::error_of([&] { load_session(ckpt::Reader(path), wider, {}); }),
              AllOf(HasSubstr(path), HasSubstr("model/bn1.bias"), HasSubstr("float32 [8]"),
                    HasSubstr("float32 [9]")));
  std::remove(path.c_str());
}

TEST(Save, AnErrorIsThrownAndNothingIsLeft) {
  const record::TrainingSpec spec = spec_of("sgd");
  Session session = make_session(spec);
  EXPECT_THROW(save(temporary("no-such-folder/x.h5"), session, spec), mpi::AgreedError);
}

TEST(Progress, NonsenseIsRefusedByName) {
  const auto refusal = [](const Progress& progress) {
    record::TrainingSpec spec;
    spec.batch_size = 64;
    return tests::error_of([&] { check_progress(progress, 1437, spec, 1); });
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({.epoch = 5, .step = 9, .cursor = 1344, .epoch_correct = 1344}), "");
  EXPECT_EQ(refusal({.epoch = std::int64_t{1} << 62, .learning_rate = std::nan("")}), "");
  EXPECT_THAT(refusal({.epoch = -1}), HasSubstr("progress/epoch is -1"));
  EXPECT_THAT(refusal({.step = std::numeric_limits<std::int64_t>::max()}),
              HasSubstr("progress/step is 9223372036854775807"));
  for (const std::int64_t cursor :
       {std::int64_t{-64}, std::int64_t{1}, std::int64_t{1408}, std::int64_t{1} << 61}) {
    EXPECT_THAT(refusal({.cursor = cursor}), HasSubstr("progress/cursor is " + std::to_string(cursor)));
  }
  EXPECT_THAT(refusal({.cursor = 64, .epoch_correct = 65}), HasSubstr("progress/epoch_correct is 65"));
}

TEST(Answers, TheFirstOfEqualLogitsIsTheAnswer) {
  const torch::Tensor logits = torch::tensor({{1.0F, 1.0F}, {0.0F, 2.0F}, {3.0F, -1.0F}});
  EXPECT_EQ(count_answers(logits, torch::tensor({0, 1, 0}, torch::kInt64)).correct, 3);
  EXPECT_EQ(count_answers(logits, torch::tensor({1, 1, 1}, torch::kInt64)).correct, 1);
  const Answers some =
      count_answers(logits, torch::tensor({0, 1, static_cast<int>(not_asked)}, torch::kInt64));
  EXPECT_EQ(some.asked, 2);
  EXPECT_EQ(some.correct, 2);
}

TEST(Feed, PartsAreEqualContiguousAndInOrder) {
  const std::vector<std::int64_t> rows = {9, 8, 7, 6, 5, 4};
  EXPECT_THAT(part(rows, 0, 3), testing::ElementsAre(9, 8));
  EXPECT_THAT(part(rows, 2, 3), testing::ElementsAre(5, 4));
}

TEST(Runnable, ChecksWithoutTraining) {
  const record::TrainingSpec spec = spec_of("sgd");
  EXPECT_EQ(
      load_runnable(spec, {.kind = record::ParallelKind::data, .ranks = 4, .micro_batches = 2})->train_size(),
      1437);
  EXPECT_THAT(tests::error_of([&] {
                (void)load_runnable(spec, {.kind = record::ParallelKind::pipeline, .ranks = 3, .stages = 3});
              }),
              HasSubstr("3 stages"));
  EXPECT_THAT(
      tests::error_of([&] { (void)load_runnable(spec, {.kind = record::ParallelKind::data, .ranks = 5}); }),
      HasSubstr("64"));
  record::TrainingSpec large = spec;
  large.batch_size = 1438;
  EXPECT_THAT(tests::error_of([&] { (void)load_runnable(large, {}); }),
              AllOf(HasSubstr("1438"), HasSubstr("1437")));
}

}  // namespace
}  // namespace bitrift::train::session_test
