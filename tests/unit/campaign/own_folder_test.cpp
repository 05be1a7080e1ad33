#include "campaign/folder/own_folder.h"

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests_support.h"

namespace bitrift::campaign::own_folder_test {
namespace {

using testing::TemporaryFolder;

void write(const std::filesystem::path& path) { replace_text(path, "{}"); }

TEST(OwnFolder, RefusesAFolderOfOtherThings) {
  const TemporaryFolder scratch;
  write(scratch / "thesis.tex");
  EXPECT_THROW(refuse_foreign(scratch.path(), scratch / "campaign.json", {"lock"}), Error);
  write(scratch / "campaign.json");
  EXPECT_NO_THROW(refuse_foreign(scratch.path(), scratch / "campaign.json", {"lock"}));
}

/// Shards that start at the same moment: one finds no identity, and then another writes it and goes on.
TEST(OwnFolder, TakesNoShardThatStartsNowForAForeigner) {
  const TemporaryFolder scratch;
  constexpr int kFolders = 400;
  const auto folder = [&](int at) { return scratch / std::to_string(at); };
  for (int at = 0; at < kFolders; ++at) std::filesystem::create_directory(folder(at));
  std::atomic<int> watched = 0;
  std::jthread other([&] {
    for (int at = 0; at < kFolders; ++at) {
      while (watched < at) std::this_thread::yield();
      write(folder(at) / "campaign.json");
      write(folder(at) / "base.h5");
    }
  });
  int refusals = 0;
  for (int at = 0; at < kFolders; ++at) {
    watched = at;
    while (!std::filesystem::exists(folder(at) / "base.h5")) {
      try {
        refuse_foreign(folder(at), folder(at) / "campaign.json", {"lock"});
      } catch (const Error&) {
        ++refusals;
      }
    }
  }
  EXPECT_EQ(refusals, 0);
}

}  // namespace
}  // namespace bitrift::campaign::own_folder_test
