#include "h5map/file.h"

#include <algorithm>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "unit/h5map/describe.h"
#include "unit/scratch.h"

namespace bitrift::h5map {
namespace {

using ::bitrift::testing::bytes_of;
using ::bitrift::testing::Scratch;

/// Files of every kind, made once for all tests.
class FileTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Scratch;
    const std::filesystem::path script =
        std::filesystem::path(BITRIFT_SOURCE_DIR) / "tests/unit/h5map/corpus.py";
    ASSERT_TRUE(bitrift::testing::python(folder_->path() / "corpus",
                                         "import runpy\nsys.argv = ['corpus.py', 'make', path]\n"
                                         "runpy.run_path('" +
                                             script.string() + "', run_name='__main__')\n"));
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::filesystem::path corpus(const std::string& name) { return folder_->path() / "corpus" / name; }

  static Scratch* folder_;
};

Scratch* FileTest::folder_ = nullptr;

/// The first lines that differ; "" when the texts are equal.
std::string first_difference(const std::string& found, const std::string& expected) {
  std::istringstream a(found), b(expected);
  std::string line_a, line_b;
  while (true) {
    const bool more_a = static_cast<bool>(std::getline(a, line_a));
    const bool more_b = static_cast<bool>(std::getline(b, line_b));
    if (!more_a && !more_b) return "";
    if (more_a != more_b || line_a != line_b) {
      return "found: " + (more_a ? line_a : "nothing") + "\nh5py:  " + (more_b ? line_b : "nothing");
    }
  }
}

TEST_F(FileTest, EveryFileReadsAsH5pyReadsIt) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus(""))) {
    if (entry.path().extension() != ".h5") continue;
    ++files;
    const File file(entry.path());
    const std::string expected = bytes_of(std::filesystem::path(entry.path()).replace_extension(".txt"));
    ASSERT_FALSE(expected.empty());
    EXPECT_EQ(first_difference(testing::describe(file), expected), "") << entry.path();
  }
  EXPECT_GE(files, 20U);
}

}  // namespace
}  // namespace bitrift::h5map
