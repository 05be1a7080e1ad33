#include "campaign/plan/limits.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "core/process/subprocess.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::limits_test {
namespace {

using ::testing::StartsWith;
using testing::TemporaryFolder;

// A process with a child that holds so many MiB; "ready" appears in the folder when it does.
Subprocess grandparent(const TemporaryFolder& folder, int mebibytes) {
  const std::string ready = folder / "ready";
  const std::string child = fmt::format(
      "import time; held = bytearray(b'x') * ({} << 20); open('{}', 'w'); time.sleep(60)", mebibytes, ready);
  return Subprocess({{"python3", "-c",
                      "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])", child},
                     {},
                     folder / "log"});
}

TEST(ResidentMemory, CountsDescendantsAndForgetsThemWhenTheyEnd) {
  const TemporaryFolder folder;
  std::uint64_t held = 0;
  pid_t pid = 0;
  {
    Subprocess process = grandparent(folder, 100);
    pid = process.pid();
    ASSERT_TRUE(tests::wait_until([&] { return std::filesystem::exists(folder / "ready"); }));
    held = resident_memory({pid});
    EXPECT_EQ(resident_memory({pid, pid}), held);  // nobody counts twice
  }
  EXPECT_GT(held, std::uint64_t{100} << 20U);
  EXPECT_LT(held, std::uint64_t{160} << 20U);
  EXPECT_EQ(resident_memory({pid}), 0U);
  EXPECT_EQ(resident_memory({}), 0U);
}

TEST(CutLog, KeepsTheEndAndSaysThatSomethingIsGone) {
  const TemporaryFolder folder;
  const auto log = folder / "log";
  const FileDescriptor writer = open_file(log, O_WRONLY | O_CREAT | O_APPEND);
  std::string text;
  for (int i = 0; i < 1000; ++i) text += fmt::format("line {:06}\n", i);
  ASSERT_EQ(write(writer.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  cut_log(log, text.size());
  EXPECT_EQ(read_text(log), text);
  cut_log(log, 4096);
  const std::string cut = read_text(log);
  EXPECT_THAT(cut, StartsWith("[the log had 12 KiB; its older part was cut off]\nline 000"));
  EXPECT_TRUE(cut.ends_with("line 000999\n"));
  EXPECT_LT(cut.size(), 4096U / 16 + 100);
  // An earlier writer continues at the end.
  ASSERT_EQ(write(writer.get(), "more\n", 5), 5);
  EXPECT_EQ(read_text(log), cut + "more\n");
}

TEST(CutLog, LeavesAloneWhatIsNotThere) {
  const TemporaryFolder folder;
  cut_log(folder / "none");
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

}  // namespace
}  // namespace bitrift::campaign::limits_test
