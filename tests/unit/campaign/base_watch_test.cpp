#include "campaign/folder/base_watch.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include "core/digest.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::base_watch_test {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

class BaseWatchTest : public ::testing::Test {
 protected:
  BaseWatchTest() { replace_text(base_, "base"); }
  TemporaryFolder folder_;
  std::filesystem::path base_ = folder_ / "base.h5";
};

TEST_F(BaseWatchTest, TouchingOrReplacingItByItselfIsNoChange) {
  BaseWatch watch(base_, digest_file(base_));
  watch.check();
  std::filesystem::last_write_time(base_, std::filesystem::file_time_type::clock::now());
  watch.check();
  replace_text(base_, "base");
  watch.check();
}

TEST_F(BaseWatchTest, AnotherByteIsRefusedEvenWithTheOldTimeAndSize) {
  const auto time = std::filesystem::last_write_time(base_);
  BaseWatch watch(base_, digest_file(base_));
  const FileDescriptor fd = open_file(base_, O_WRONLY);
  write_at(fd, "B", 1, 0, base_);
  std::filesystem::last_write_time(base_, time);
  EXPECT_THAT(tests::error_of([&] { watch.check(); }),
              HasSubstr("base.h5: changed since the campaign began"));
  EXPECT_THAT(tests::error_of([&] { watch.check(); }), HasSubstr("restore it"));
  write_at(fd, "b", 1, 0, base_);
  watch.check();
}

TEST_F(BaseWatchTest, AMissingFileIsNamed) {
  BaseWatch watch(base_, digest_file(base_));
  std::filesystem::remove(base_);
  EXPECT_THAT(tests::error_of([&] { watch.check(); }), HasSubstr("base.h5: No such file"));
}

TEST_F(BaseWatchTest, ABaseThatIsAnotherFromTheStartIsRefused) {
  EXPECT_THAT(tests::error_of([&] { BaseWatch(base_, "0123"); }), HasSubstr("no longer 0123"));
}

}  // namespace
}  // namespace bitrift::campaign::base_watch_test
