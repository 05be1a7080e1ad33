// The files that corpus.py writes, made once for all tests of a suite.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "unit/places.h"
#include "unit/scratch.h"

namespace bitrift::h5map::testing {

using ::bitrift::testing::bytes_of;
using ::bitrift::testing::python;
using ::bitrift::testing::Scratch;
using ::bitrift::testing::write_bytes;

class CorpusTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<Scratch>();
    ASSERT_TRUE(python(folder_->path() / "corpus", script("make")));
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::filesystem::path corpus(const std::string& name) { return folder_->path() / "corpus" / name; }
  static std::vector<std::filesystem::path> files() {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_->path() / "corpus")) {
      if (entry.path().extension() == ".h5") found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  /// What h5py says of a file.
  static std::string witness(const std::filesystem::path& path) {
    const std::filesystem::path text = path.string() + ".witness";
    EXPECT_TRUE(python(path, "sys.stdout = open(path + '.witness', 'w')\n" + script("describe"))) << path;
    return bytes_of(text);
  }

  static inline std::unique_ptr<Scratch> folder_;

 private:
  static std::string script(const std::string& verb) {
    const std::filesystem::path file =
        std::filesystem::path(bitrift::testing::source_dir) / "tests/unit/h5map/corpus.py";
    return "import runpy\nsys.argv = ['corpus.py', '" + verb + "', path]\nrunpy.run_path('" + file.string() +
           "', run_name='__main__')\n";
  }
};

}  // namespace bitrift::h5map::testing
