#include "core/process/confined.h"

#include <chrono>
#include <csignal>
#include <filesystem>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "unit/places.h"
#include "unit/scratch.h"

namespace bitrift::confined_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

const std::filesystem::path worker =
    std::filesystem::path(bitrift::testing::binary_dir) / "tests" / "confined_worker";
const std::string where = "f.h5";

const Bytes echo = {'a', 1, 2};

TEST(Confined, AnswersAndErrorsComeBack) {
  Confined confined(worker);
  EXPECT_THAT(confined.call(echo, where, {}), ::testing::ElementsAre(2, 1, 'a'));
  EXPECT_ERROR(confined.call(Bytes{'e'}, where, {}), unsupported, "f.h5: cannot");
  EXPECT_ERROR(confined.call(Bytes{'s'}, where, {}), bad_file, "f.h5: standard");
  Bytes large(5'000'000, 'a');
  large.back() = 9;
  EXPECT_EQ(confined.call(large, where, {.memory_bytes = 1 << 30, .seconds = 20, .answer_bytes = 5'000'000})
                .front(),
            9);
}

TEST(Confined, DeathOfTheChildIsAnErrorAndTheNextCallWorks) {
  Confined confined(worker);
  for (int i = 0; i < 3; ++i) {
    EXPECT_ERROR(confined.call(Bytes{'c'}, where, {}), bad_file,
                 "f.h5: the process that worked on it ended with signal 11");
    EXPECT_EQ(confined.call(echo, where, {}).size(), 3U);
    EXPECT_ERROR(confined.call(Bytes{'x'}, where, {}), bad_file, "exit code 7");
    EXPECT_ERROR(confined.call(Bytes{'b'}, where, {}), bad_file, "more than");
    EXPECT_EQ(confined.call(echo, where, {}).size(), 3U);
  }
}

TEST(Confined, EndlessWorkAndEndlessWaitingAreGivenUp) {
  for (const std::uint8_t what : {std::uint8_t{'l'}, std::uint8_t{'w'}}) {
    Confined confined(worker);
    const ConfinedLimits limits{.memory_bytes = 1 << 30, .seconds = 1, .answer_bytes = 100};
    const auto start = std::chrono::steady_clock::now();
    EXPECT_ERROR(confined.call(Bytes{what}, where, limits), bad_file, "f.h5: took more than 1 seconds");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
    EXPECT_EQ(confined.call(echo, where, {}).size(), 3U);
  }
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(Confined, MemoryIsBounded) {
  Confined confined(worker);
  EXPECT_ERROR(confined.call(Bytes{'m'}, where, {}), bad_file, "f.h5: std::bad_alloc");
  EXPECT_EQ(confined.call(echo, where, {}).size(), 3U);
}
#endif

TEST(Confined, AProgramThatIsNotThereIsNamed) {
  Confined confined("/nowhere/at/all");
  EXPECT_ERROR(confined.call(echo, where, {}), unsupported, "f.h5: /nowhere/at/all cannot be started");
}

TEST(Confined, TheProcessKeepsNoLockAndDiesWithTheObject) {
  const testing::Scratch scratch;
  const auto path = scratch / "locked";
  testing::write_bytes(path, "x");
  FileDescriptor locked = open_file(path, O_RDWR);
  lock_exclusive(locked, path);
  pid_t pid = 0;
  {
    Confined confined(worker);
    const Bytes answer = confined.call(Bytes{'p'}, where, {});
    std::copy(answer.begin(), answer.end(), reinterpret_cast<std::uint8_t*>(&pid));
    EXPECT_EQ(::kill(pid, 0), 0);
    locked.close();
    EXPECT_NO_THROW(lock_exclusive(open_file(path, O_RDWR), path));
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

}  // namespace
}  // namespace bitrift::confined_test
