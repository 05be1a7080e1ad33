#include "core/confined.h"

#include <chrono>
#include <csignal>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "unit/scratch.h"

namespace bitrift {
namespace {

using Bytes = std::vector<std::uint8_t>;

// What the first byte of the request asks for.
Bytes work(std::span<const std::uint8_t> request) {
  switch (request.front()) {
    case 'c':
      ::raise(SIGSEGV);
      break;
    case 'x':
      ::_exit(7);
    case 'e':
      fail(ErrorCode::unsupported, "f.h5: cannot");
    case 's':
      throw std::runtime_error("standard");
    case 'l': {
      volatile std::uint64_t n = 0;
      for (;;) n = n + 1;
    }
    case 'w':
      ::pause();
      break;
    case 'm': {
      Bytes all(std::size_t{3} << 30);
      return {all[all.size() / 2]};
    }
    case 'b':
      return Bytes(10'000'000);
    case 'p': {
      const pid_t pid = ::getpid();
      return {reinterpret_cast<const std::uint8_t*>(&pid), reinterpret_cast<const std::uint8_t*>(&pid + 1)};
    }
    default:
      break;
  }
  return {request.rbegin(), request.rend()};
}

const Bytes echo = {'a', 1, 2};

TEST(Confined, AnswersAndErrorsComeBack) {
  Confined confined(work, "f.h5", {});
  EXPECT_THAT(confined.call(echo), ::testing::ElementsAre(2, 1, 'a'));
  EXPECT_ERROR(confined.call(Bytes{'e'}), unsupported, "f.h5: cannot");
  EXPECT_ERROR(confined.call(Bytes{'s'}), bad_file, "f.h5: standard");
  Bytes large(5'000'000, 'a');
  large.back() = 9;
  EXPECT_EQ(Confined(work, "f.h5", {.memory_bytes = 1 << 30, .seconds = 20, .answer_bytes = 5'000'000})
                .call(large)
                .front(),
            9);
}

TEST(Confined, DeathOfTheChildIsAnErrorAndTheNextCallWorks) {
  Confined confined(work, "f.h5", {});
  for (int i = 0; i < 3; ++i) {
    EXPECT_ERROR(confined.call(Bytes{'c'}), bad_file,
                 "f.h5: the process that worked on it ended with signal 11");
    EXPECT_EQ(confined.call(echo).size(), 3U);
    EXPECT_ERROR(confined.call(Bytes{'x'}), bad_file, "exit code 7");
    EXPECT_ERROR(confined.call(Bytes{'b'}), bad_file, "more than");
    EXPECT_EQ(confined.call(echo).size(), 3U);
  }
}

TEST(Confined, EndlessWorkAndEndlessWaitingAreGivenUp) {
  for (const std::uint8_t what : {std::uint8_t{'l'}, std::uint8_t{'w'}}) {
    Confined confined(work, "f.h5", {.memory_bytes = 1 << 30, .seconds = 1, .answer_bytes = 100});
    const auto start = std::chrono::steady_clock::now();
    EXPECT_ERROR(confined.call(Bytes{what}), bad_file, "f.h5: took more than 1 seconds");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
    EXPECT_EQ(confined.call(echo).size(), 3U);
  }
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(Confined, MemoryIsBounded) {
  Confined confined(work, "f.h5", {.memory_bytes = 1 << 30, .seconds = 20, .answer_bytes = 100});
  EXPECT_ERROR(confined.call(Bytes{'m'}), bad_file, "f.h5: std::bad_alloc");
  EXPECT_EQ(confined.call(echo).size(), 3U);
}
#endif

TEST(Confined, TheChildKeepsNoLockAndDiesWithTheObject) {
  const testing::Scratch scratch;
  const auto path = scratch / "locked";
  testing::write_bytes(path, "x");
  FileDescriptor locked = open_file(path, O_RDWR);
  lock_exclusive(locked, path);
  pid_t pid = 0;
  {
    Confined confined(work, "f.h5", {});
    const Bytes answer = confined.call(Bytes{'p'});
    std::copy(answer.begin(), answer.end(), reinterpret_cast<std::uint8_t*>(&pid));
    EXPECT_EQ(::kill(pid, 0), 0);
    locked.close();
    EXPECT_NO_THROW(lock_exclusive(open_file(path, O_RDWR), path));
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

}  // namespace
}  // namespace bitrift
