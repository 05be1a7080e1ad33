#include "campaign/folder/work_place.h"

#include <optional>

#include <gmock/gmock.h>
#include <sys/statvfs.h>

#include "campaign/worker/scratch.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::work_place_test {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

class WorkPlaceTest : public ::testing::Test {
 protected:
  WorkPlaceTest() { std::filesystem::create_directories(question_.memory); }
  [[nodiscard]] std::filesystem::path named(const std::filesystem::path& parent) const {
    return parent / scratch_name(question_.root, "copies");
  }
  /// What another campaign asks.
  [[nodiscard]] WorkQuestion of(const char* root) const {
    WorkQuestion other = question_;
    other.root = folder_ / root;
    other.inside = other.root / "work";
    return other;
  }
  TemporaryFolder folder_;
  WorkQuestion question_{folder_ / "campaign", folder_ / "campaign" / "work", std::nullopt, 1000, true,
                         folder_ / "memory"};
};

TEST_F(WorkPlaceTest, CopiesGoIntoMemoryWhenTheyFitAndLeaveNothingBehind) {
  {
    const WorkPlace place(question_);
    EXPECT_EQ(place.folder(), named(question_.memory));
    EXPECT_EQ(place.copy("3"), place.folder() / "3" / "ckpt.h5");
    EXPECT_TRUE(std::filesystem::is_directory(place.folder() / "3"));
    replace_text(place.copy("3"), "copy");
  }
  EXPECT_TRUE(std::filesystem::is_empty(question_.memory));
  EXPECT_TRUE(std::filesystem::is_empty(question_.inside));
}

TEST_F(WorkPlaceTest, CopiesThatDoNotFitOrHaveOtherReadersStayInTheFolder) {
  question_.bytes = free_space(question_.memory) / 2 + (std::uint64_t{1} << 30U);
  EXPECT_EQ(WorkPlace(question_).folder(), question_.inside);
  question_.bytes = available_memory() / 4 + (std::uint64_t{1} << 30U);
  EXPECT_EQ(WorkPlace(question_).folder(), question_.inside);
  question_.bytes = 1;
  question_.memory_serves = false;
  EXPECT_EQ(WorkPlace(question_).folder(), question_.inside);
  question_.memory_serves = true;
  question_.memory = folder_ / "nowhere";
  EXPECT_EQ(WorkPlace(question_).folder(), question_.inside);
  EXPECT_TRUE(std::filesystem::is_directory(question_.inside));
}

TEST_F(WorkPlaceTest, TheFolderThatIsAskedForIsMadeAndKept) {
  question_.asked = folder_ / "disk" / "fast";
  {
    const WorkPlace place(question_);
    EXPECT_EQ(place.folder(), named(*question_.asked));
  }
  EXPECT_TRUE(std::filesystem::is_empty(*question_.asked));
  replace_text(folder_ / "file", "");
  question_.asked = folder_ / "file";
  EXPECT_THAT(tests::error_of([&] { WorkPlace{question_}; }), HasSubstr("file"));
}

TEST_F(WorkPlaceTest, WhatAKilledDriverLeftIsRemovedWhereverTheNextOneWorks) {
  const auto left = named(folder_ / "old");
  std::filesystem::create_directories(left / "0");
  replace_text(left / "0" / "ckpt.h5", "copy");
  std::filesystem::create_directories(question_.inside);
  std::filesystem::create_directory_symlink(left, question_.inside / "elsewhere");
  const WorkPlace place(question_);
  EXPECT_EQ(place.folder(), named(question_.memory));
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_F(WorkPlaceTest, WhatKilledDriversOfOtherCampaignsLeftInMemoryIsRemoved) {
  const auto name = [this](const char* root, const char* worker) {
    return question_.memory / scratch_name(folder_ / root, worker);
  };
  for (const char* const root : {"killed", "resumed"}) {
    std::filesystem::create_directories(name(root, "copies") / "0");
    std::filesystem::create_directories(name(root, "3"));
  }
  std::filesystem::create_directories(question_.memory / "bitrift-thesis-copies");
  const WorkPlace live(of("resumed"));
  replace_text(live.copy("0"), "copy");
  EXPECT_FALSE(std::filesystem::exists(name("killed", "copies")));
  EXPECT_FALSE(std::filesystem::exists(name("killed", "3")));
  {
    const WorkPlace next(question_);
    EXPECT_EQ(read_text(live.copy("0")), "copy");
    { const WorkPlace third(of("third")); }
    EXPECT_TRUE(std::filesystem::exists(next.folder()));
  }
  EXPECT_TRUE(std::filesystem::exists(question_.memory / "bitrift-thesis-copies"));
  EXPECT_EQ(read_text(live.copy("0")), "copy");
}

TEST_F(WorkPlaceTest, AFolderForWorkGoesWithTheCopiesThatItNames) {
  const auto left = named(folder_ / "old");
  std::filesystem::create_directories(left / "0");
  std::filesystem::create_directories(question_.inside);
  std::filesystem::create_directory_symlink(left, question_.inside / "elsewhere");
  remove_work(question_.inside);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_FALSE(std::filesystem::exists(question_.inside));
  remove_work(question_.inside);
}

TEST_F(WorkPlaceTest, ALinkToAnythingElseIsNotFollowed) {
  const auto thesis = folder_ / "thesis";
  std::filesystem::create_directories(thesis);
  replace_text(thesis / "text", "precious");
  std::filesystem::create_directories(question_.inside);
  std::filesystem::create_directory_symlink(thesis, question_.inside / "elsewhere");
  { const WorkPlace place(question_); }
  EXPECT_EQ(read_text(thesis / "text"), "precious");
}

TEST(FreeSpace, IsThatOfTheNearestFolderThatIsThere) {
  const TemporaryFolder folder;
  struct statvfs info {};
  ASSERT_EQ(statvfs(folder.path().c_str(), &info), 0);
  const auto expected = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
  EXPECT_NEAR(static_cast<double>(free_space(folder / "a/b/c")), expected, 0.05 * expected);
}

}  // namespace
}  // namespace bitrift::campaign::work_place_test
