#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/digest.h"
#include "core/error.h"
#include "core/file.h"
#include "core/process/subprocess.h"
#include "tests_support.h"

namespace bitrift::system_test {
namespace {

namespace fs = std::filesystem;

class InFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "bitrift-core-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}));
  }
  fs::path folder_;
};

using FileTest = InFolder;
using SubprocessTest = InFolder;

TEST_F(FileTest, ReplacedTextIsWholeAndLeavesNoNeighbour) {
  replace_text(folder_ / "a.json", "old");
  replace_text(folder_ / "a.json", "new and longer");
  EXPECT_EQ(read_text(folder_ / "a.json"), "new and longer");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, AnAbandonedPendingFileVanishesAndTheOldOneStands) {
  replace_text(folder_ / "a", "old");
  {
    const PendingFile pending(folder_ / "a");
    EXPECT_EQ(entries(), 2u);
  }
  EXPECT_EQ(entries(), 1u);
  EXPECT_EQ(read_text(folder_ / "a"), "old");
}

// Makes a temporary file of this target in a process that is killed before it can remove it.
void die_while_writing(const fs::path& target) {
  const pid_t child = ::fork();
  if (child == 0) {
    const PendingFile pending(target);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST_F(FileTest, WhatAKilledWriterLeftIsRemovedByTheNextOfThatName) {
  die_while_writing(folder_ / "a");
  die_while_writing(folder_ / "b");
  ASSERT_EQ(entries(), 2u);
  replace_text(folder_ / "a", "whole");
  EXPECT_EQ(entries(), 2u);  // a, and what b left
  EXPECT_EQ(read_text(folder_ / "a"), "whole");
  EXPECT_TRUE(publish_text(folder_ / "b", "whole"));
  EXPECT_EQ(entries(), 2u);
}

TEST_F(FileTest, TheTemporaryFileOfALivingWriterStays) {
  PendingFile mine(folder_ / "a");
  replace_text(folder_ / "a", "another's");
  EXPECT_TRUE(fs::exists(mine.path()));
  const pid_t child = ::fork();
  if (child == 0) {
    replace_text(folder_ / "a", "of another process");
    ::_exit(fs::exists(mine.path()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  mine.commit();
  EXPECT_EQ(read_text(folder_ / "a"), "");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, TheFolderOfAKilledProgramIsRemovedByTheNextOfThatName) {
  const TemporaryFolder living("work", folder_);
  for (const char* name : {"work", "other"}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const TemporaryFolder mine(name, folder_);
      std::ofstream(mine.path() / "file") << "text";
      ::raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
  }
  fs::create_directory(folder_ / "work-short");
  fs::create_directory(folder_ / "work-a.b-cd");
  std::ofstream(folder_ / "work-abcdef") << "no folder";
  fs::create_directory_symlink(living.path(), folder_ / "work-ABCDEF");
  ASSERT_EQ(entries(), 7u);
  {
    const TemporaryFolder next("work", folder_);
    EXPECT_EQ(entries(), 7u);  // without the killed program's, with this one
    EXPECT_TRUE(fs::exists(living.path()) && fs::exists(next.path()));
  }
  EXPECT_EQ(entries(), 6u);
}

TEST_F(FileTest, ManyThatMakeAFolderOfOneNameAtOnceLoseNone) {
  std::atomic<int> missing = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < 200; ++round) {
          const TemporaryFolder mine("work", folder_);
          std::ofstream(mine.path() / "file") << "text";
          if (!fs::exists(mine.path() / "file")) ++missing;
        }
      });
    }
  }
  EXPECT_EQ(missing, 0);
  EXPECT_EQ(entries(), 0u);
}

TEST_F(FileTest, NamesThatOnlyLookLikeALeftoverStay) {
  fs::create_directory(folder_ / ".a.tmp-folder");
  fs::create_symlink(folder_ / "b", folder_ / ".a.tmp-abcdef");
  for (const char* name : {".a.tmp-short", ".a.tmp-toolong", ".a.tmp-b.tmp-abcdef", ".a.tmp-ab.def"})
    std::ofstream(folder_ / name) << "text";
  replace_text(folder_ / "a", "new");
  EXPECT_EQ(entries(), 7u);
}

TEST_F(FileTest, ManyThatReplaceOneNameAtOnceLoseNoFile) {
  std::vector<std::jthread> threads;
  std::atomic<int> failures = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      try {
        for (int round = 0; round < 100; ++round) replace_text(folder_ / "a", std::to_string(i));
      } catch (const Error&) {
        ++failures;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  replace_text(folder_ / "a", "old");
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      replace_text(folder_ / "a", std::string(5000, 'x'));
    } catch (const Error& error) {
      ::_exit(error.code() == ErrorCode::io ? 42 : 1);
    }
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_EQ(read_text(folder_ / "a"), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, PublishedNameIsNeverReplaced) {
  EXPECT_TRUE(publish_text(folder_ / "a", "first"));
  EXPECT_FALSE(publish_text(folder_ / "a", "second"));
  EXPECT_EQ(read_text(folder_ / "a"), "first");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, OfManyThatPublishAtOnceOneIsFirstAndItsTextStands) {
  for (int round = 0; round < 30; ++round) {
    const fs::path name = folder_ / std::to_string(round);
    std::atomic<int> winner = -1;
    std::atomic<int> winners = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 6; ++i) {
        threads.emplace_back([&, i] {
          if (!publish_text(name, std::to_string(i))) return;
          winner = i;
          ++winners;
        });
      }
    }
    EXPECT_EQ(winners, 1);
    EXPECT_EQ(read_text(name), std::to_string(winner));
  }
  EXPECT_EQ(entries(), 30u);
}

TEST_F(FileTest, CopiesEveryByte) {
  std::string text(3'000'001, 'a');
  for (std::size_t i = 0; i < text.size(); i += 97) text[i] = static_cast<char>(i);
  replace_text(folder_ / "from", text);
  copy_file_bytes(folder_ / "from", folder_ / "to");
  EXPECT_EQ(digest_file(folder_ / "to"), digest_bytes(text.data(), text.size()));
}

TEST_F(FileTest, ACopyOverALongerFileHasItsOwnLength) {
  replace_text(folder_ / "from", "short");
  replace_text(folder_ / "to", std::string(100'000, 'x'));
  copy_file_bytes(folder_ / "from", folder_ / "to");
  EXPECT_EQ(read_text(folder_ / "to"), "short");
  replace_text(folder_ / "from", "");
  copy_file_bytes(folder_ / "from", folder_ / "to");
  EXPECT_EQ(read_text(folder_ / "to"), "");
}

TEST_F(FileTest, FilesThatSayTheyAreEmptyAreCopiedToo) {
  copy_file_bytes("/proc/self/cmdline", folder_ / "to");
  EXPECT_EQ(read_text(folder_ / "to"), read_text("/proc/self/cmdline"));
}

TEST_F(FileTest, HolesAreCopiedAsHoles) {
  constexpr std::uint64_t hole = std::uint64_t{1} << 30;
  const auto used = [&](const char* name) {
    struct stat info {};
    EXPECT_EQ(::stat((folder_ / name).c_str(), &info), 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  };
  replace_text(folder_ / "from", "head");
  {
    const FileDescriptor fd = open_file(folder_ / "from", O_RDWR);
    write_at(fd, "middle", 6, hole, folder_ / "from");
    ASSERT_EQ(::ftruncate(fd.get(), 2 * hole + 5), 0);
  }
  copy_file_bytes(folder_ / "from", folder_ / "to");
  EXPECT_EQ(std::filesystem::file_size(folder_ / "to"), 2 * hole + 5);
  EXPECT_LE(used("to"), used("from") + 65536);  // on a file system without holes both have all
  const FileDescriptor fd = open_file(folder_ / "to", O_RDONLY);
  std::string text(4, ' ');
  read_at(fd, text.data(), 4, 0, folder_ / "to");
  EXPECT_EQ(text, "head");
  text.resize(8);
  read_at(fd, text.data(), 8, hole - 1, folder_ / "to");
  EXPECT_EQ(text, std::string("\0middle\0", 8));
  read_at(fd, text.data(), 5, 2 * hole, folder_ / "to");
  EXPECT_EQ(text.substr(0, 5), std::string(5, '\0'));
}

TEST_F(FileTest, MissingFilesAreNamed) {
  try {
    (void)read_text(folder_ / "none");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_NE(std::string(error.what()).find("none"), std::string::npos);
  }
}

TEST_F(FileTest, ReadingBeyondTheEndSaysTruncated) {
  replace_text(folder_ / "a", "1234");
  const FileDescriptor fd = open_file(folder_ / "a", O_RDONLY);
  char bytes[8];
  try {
    read_at(fd, bytes, 8, 0, folder_ / "a");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
  }
}

TEST_F(FileTest, ASecondLockIsRefused) {
  replace_text(folder_ / "a", "x");
  const FileDescriptor first = open_file(folder_ / "a", O_RDWR);
  FileDescriptor second = open_file(folder_ / "a", O_RDWR);
  lock_exclusive(first, folder_ / "a");
  try {
    lock_exclusive(second, folder_ / "a");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::busy);
  }
}

TEST_F(SubprocessTest, ReportsExitCodeSignalAndOutput) {
  Command command;
  command.arguments = {"sh", "-c", "echo $BITRIFT_X; exit 7"};
  command.environment["BITRIFT_X"] = "hello";
  command.output = folder_ / "log";
  EXPECT_EQ(Subprocess(command).wait()->code, 7);
  EXPECT_EQ(read_text(folder_ / "log"), "hello\n");
  command.arguments = {"sh", "-c", "kill -SEGV $$"};
  EXPECT_EQ(Subprocess(command).wait()->signal, SIGSEGV);
}

TEST_F(SubprocessTest, AMissingProgramIsAnErrorNotAnExitCode) {
  Command command;
  command.arguments = {"no-such-program-anywhere"};
  EXPECT_THROW(Subprocess{command}, Error);
}

/// Whether a child has written the file "pid".
bool has_pid(const fs::path& folder) {
  return fs::exists(folder / "pid") && fs::file_size(folder / "pid") > 0;
}

/// Whether a process has ended; nobody may have waited for it yet.
bool is_gone(int pid) {
  std::ifstream state("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, letter;
  return !(state >> number >> name >> letter) || letter == "Z";
}

TEST_F(SubprocessTest, ADeadlineReturnsAndTheGroupDiesWithItsChildren) {
  Command command;
  command.arguments = {"sh", "-c", "sleep 60 & echo $! > " + (folder_ / "pid").string() + "; wait"};
  Subprocess process(command);
  ASSERT_TRUE(tests::wait_until([&] { return has_pid(folder_); }));
  EXPECT_FALSE(process.wait(0.05).has_value());
  EXPECT_EQ(process.terminate(5).signal, SIGTERM);
  int grandchild = 0;
  std::ifstream(folder_ / "pid") >> grandchild;
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(tests::wait_until([&] { return is_gone(grandchild); }));
}

TEST_F(SubprocessTest, AChildDoesNotOutliveItsParent) {
  const pid_t middle = ::fork();
  if (middle == 0) {
    Command command;
    command.arguments = {"sh", "-c", "echo $$ > " + (folder_ / "pid").string() + "; exec sleep 60"};
    const Subprocess process(command);
    static_cast<void>(tests::wait_until([&] { return has_pid(folder_); }));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(middle, &status, 0), middle);
  int child = 0;
  std::ifstream(folder_ / "pid") >> child;
  ASSERT_GT(child, 0);
  EXPECT_TRUE(tests::wait_until([&] { return is_gone(child); }));
}

}  // namespace
}  // namespace bitrift::system_test
