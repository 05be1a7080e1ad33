#include "train/state/background_save.h"

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/file.h"
#include "mpi/communicator.h"
#include "train/state/save_checkpoint.h"
#include "unit/train/small_session.h"

namespace bitrift::train::background_save_test {
namespace {

record::TrainingSpec adam() {
  record::TrainingSpec spec;
  spec.optimizer.name = record::OptimizerName::adam;
  return spec;
}

struct Training {
  record::TrainingSpec spec = adam();
  Session session = small_session::make_session(spec);
  BackgroundSave behind;

  void save(
      const std::filesystem::path& path, SaveMode mode, BackgroundSave& by,
      std::function<void()> saved = [] {}) {
    KillPoint none;
    save_session({path, mode, SaveWriter::gather, std::move(saved)}, by, session, spec,
                 Layout(ReplicaMap(1, 1), mpi::Communicator()), none);
  }
  void save(const std::filesystem::path& path, SaveMode mode) { save(path, mode, behind); }
};

TEST(BackgroundSave, WritesTheBytesOfTheMomentWhileTrainingContinues) {
  const TemporaryFolder folder("background");
  Training one;
  BackgroundSave other;
  for (int step = 0; step < 50; ++step) {
    const auto name = [&](const char* mode) { return folder.path() / fmt::format("{}-{}.h5", mode, step); };
    one.save(name("async"), SaveMode::async);
    one.save(name("sync"), SaveMode::sync, other);
    small_session::take_step(one.session);
  }
  one.behind.wait();
  for (int step = 0; step < 50; ++step) {
    const std::string async = read_text(folder.path() / fmt::format("async-{}.h5", step));
    EXPECT_EQ(async, read_text(folder.path() / fmt::format("sync-{}.h5", step))) << step;
    if (step == 0) continue;
    EXPECT_NE(async, read_text(folder.path() / fmt::format("async-{}.h5", step - 1)));
  }
}

TEST(BackgroundSave, ReturnsBeforeTheSaveIsOver) {
  const TemporaryFolder folder("background");
  Training one;
  std::atomic<bool> may_end = false, over = false;
  one.save(folder.path() / "a.h5", SaveMode::async, one.behind, [&] {
    while (!may_end) std::this_thread::yield();
    over = true;
  });
  EXPECT_FALSE(over);
  may_end = true;
  one.behind.wait();
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "a.h5"));
}

TEST(BackgroundSave, ErrorsSurfaceAtTheNextSaveAndOnce) {
  const TemporaryFolder folder("background");
  Training one;
  one.save(folder.path() / "gone" / "a.h5", SaveMode::async);
  try {
    one.save(folder.path() / "b.h5", SaveMode::async);
    ADD_FAILURE() << "the first save failed";
  } catch (const mpi::AgreedError& error) {
    EXPECT_NE(std::string(error.what()).find("gone/a.h5"), std::string::npos) << error.what();
  }
  one.save(folder.path() / "c.h5", SaveMode::async);
  one.behind.wait();
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "b.h5"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "c.h5"));
}

TEST(BackgroundSave, LaterSaveThatWaitsReplacesOneThatFailed) {
  const TemporaryFolder folder("background");
  Training one;
  one.save(folder.path() / "gone" / "a.h5", SaveMode::async);
  one.save(folder.path() / "b.h5", SaveMode::sync);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "b.h5"));
  one.behind.wait();
}

TEST(BackgroundSave, FilesOfOneNameComeInTheOrderOfTheirSaves) {
  const TemporaryFolder folder("background");
  Training one;
  const std::filesystem::path path = folder.path() / "a.h5";
  for (int step = 0; step < 5; ++step) {
    small_session::take_step(one.session);
    one.save(path, SaveMode::async);
  }
  one.behind.wait();
  one.save(folder.path() / "last.h5", SaveMode::sync);
  EXPECT_EQ(read_text(path), read_text(folder.path() / "last.h5"));
}

TEST(BackgroundSave, MemoryIsUsedInTurns) {
  BackgroundSave behind;
  std::uint8_t* const first = behind.memory(10);
  EXPECT_EQ(behind.memory(10), first) << "nothing was started";
  behind.start([] {});
  std::uint8_t* const second = behind.memory(10);
  EXPECT_NE(second, first);
  behind.start([] {});
  EXPECT_EQ(behind.memory(10), first);
}

TEST(BackgroundSave, PreparedMemoryIsThatOfTheSaves) {
  constexpr std::size_t bytes = std::size_t{1} << 20U;
  BackgroundSave behind;
  behind.prepare(bytes);
  std::uint8_t* const first = behind.memory(bytes);
  behind.start([] {});
  std::uint8_t* const second = behind.memory(bytes);
  EXPECT_NE(second, first);
  behind.start([] {});
  EXPECT_EQ(behind.memory(bytes), first);
  std::memset(behind.memory(2 * bytes), 1, 2 * bytes);  // a file may be larger than it was thought
  behind.start([] {});
  EXPECT_EQ(behind.memory(bytes), second);
}

TEST(BackgroundSave, PreparationThatFailsIsReportedByTheSave) {
  constexpr std::size_t bytes = std::size_t{1} << 60U;
  BackgroundSave behind;
  behind.prepare(bytes);
  EXPECT_THROW((void)behind.memory(bytes), Error);
  EXPECT_NE(behind.memory(10), nullptr);
}

TEST(BackgroundSave, PreparedSavesHaveTheBytesOfOthers) {
  const TemporaryFolder folder("background");
  Training one;
  BackgroundSave other;
  prepare_saves(ckpt::WriteFormat::hdf5, one.behind, one.session, one.spec);
  for (int step = 0; step < 3; ++step) {
    one.save(folder.path() / "prepared.h5", SaveMode::async);
    one.behind.wait();
    one.save(folder.path() / "other.h5", SaveMode::sync, other);
    EXPECT_EQ(read_text(folder.path() / "prepared.h5"), read_text(folder.path() / "other.h5")) << step;
    small_session::take_step(one.session);
  }
}

}  // namespace
}  // namespace bitrift::train::background_save_test
