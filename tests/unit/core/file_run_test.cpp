// Several files as one run of bytes, against the same bytes in memory.
#include "core/file_run.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "unit/scratch.h"

namespace bitrift {
namespace {

using testing::bytes_of;
using testing::Scratch;
using testing::write_bytes;

/// Files of 5, 0, 1, 7 and 0 bytes.
class FileRunTest : public ::testing::Test {
 protected:
  FileRunTest() {
    files_.root = scratch_ / "set";
    std::filesystem::create_directories(files_.root / "sub");
    for (const auto& [name, content] : contents_) {
      write_bytes(files_.root / name, content);
      files_.add(name, content.size());
      all_ += content;
    }
  }
  [[nodiscard]] std::string together() const {
    std::string text;
    for (const auto& [name, content] : contents_) text += bytes_of(files_.root / name);
    return text;
  }

  Scratch scratch_;
  std::vector<std::pair<std::string, std::string>> contents_ = {
      {"a", "01234"}, {"empty", ""}, {"sub/b", "5"}, {"c", "6789xyz"}, {"last", ""}};
  FileList files_;
  std::string all_;
};

TEST_F(FileRunTest, ReadsAndWritesAnyBytes) {
  for (std::size_t first = 0; first <= all_.size(); ++first) {
    for (std::size_t size = 0; first + size <= all_.size(); ++size) {
      const FileRun run(files_, O_RDWR);
      std::string found(size, '\0');
      run.read(found.data(), size, first);
      EXPECT_EQ(found, all_.substr(first, size)) << first;
      const std::string other(size, '#');
      run.write(other.data(), size, first);
      EXPECT_EQ(together(), all_.substr(0, first) + other + all_.substr(first + size));
      run.write(found.data(), size, first);
      EXPECT_EQ(together(), all_);
    }
  }
}

TEST_F(FileRunTest, NamesTheFileOfAByte) {
  const std::string root = files_.root.string();
  EXPECT_EQ(files_.place(0), root + "/a: byte 0");
  EXPECT_EQ(files_.place(4), root + "/a: byte 4");
  EXPECT_EQ(files_.place(5), root + "/sub/b: byte 0");
  EXPECT_EQ(files_.place(12), root + "/c: byte 6");
  EXPECT_EQ(files_.within(12), 6);
  EXPECT_EQ(FileList{root + "/a"}.place(3), root + "/a: byte 3");
  EXPECT_EQ(FileRun(files_, O_RDONLY).bytes(), 13);
}

TEST_F(FileRunTest, OpensOnlyWhatItNeeds) {
  std::filesystem::remove(files_.root / "c");
  const FileRun run(files_, O_RDWR);
  char byte = '!';
  run.write(&byte, 1, 5);
  EXPECT_EQ(bytes_of(files_.root / "sub/b"), "!");
  EXPECT_THAT([&] { run.read(&byte, 1, 6); }, ::testing::Throws<Error>());
  EXPECT_THAT([&] { (void)run.bytes(); }, ::testing::Throws<Error>());
}

TEST_F(FileRunTest, AnotherFolderHasTheSameFiles) {
  std::filesystem::copy(files_.root, scratch_ / "copy", std::filesystem::copy_options::recursive);
  const FileRun copy(files_.in(scratch_ / "copy"), O_RDWR);
  copy.write("??", 2, 4);
  EXPECT_EQ(together(), all_);
  EXPECT_EQ(bytes_of(scratch_ / "copy/a"), "0123?");
  EXPECT_EQ(bytes_of(scratch_ / "copy/sub/b"), "?");
}

TEST_F(FileRunTest, AFileThatWasCutIsAnError) {
  std::filesystem::resize_file(files_.root / "a", 2);
  std::string found(5, '\0');
  EXPECT_THAT([&] { FileRun(files_, O_RDONLY).read(found.data(), 5, 0); }, ::testing::Throws<Error>());
}

}  // namespace
}  // namespace bitrift
