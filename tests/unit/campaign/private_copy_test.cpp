#include "campaign/worker/private_copy.h"

#include <fstream>

#include <gmock/gmock.h>

#include "ckpt/set/checkpoint_files.h"
#include "core/error.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::private_copy_test {
namespace {

using ::testing::HasSubstr;
using tests::error_of;

TEST(PrivateCopy, ComesBackToTheBytesOfTheBaseWhichIsNeverTouched) {
  const testing::TemporaryFolder folder;
  testing::write_base(folder / "base.h5");
  const std::string before = read_text(folder / "base.h5");
  const ckpt::Reader base(folder / "base.h5");
  {
    PrivateCopy copy(base, folder / "copy.h5");
    record::TrialSpec canary;
    canary.whole = {{"model/fc2.weight", record::WholeChange::nan}};
    EXPECT_EQ(copy.alter(canary), std::vector<std::string>{"model/fc2.weight"});
    const std::string altered = read_text(folder / "copy.h5");
    EXPECT_NE(altered, before);
    EXPECT_EQ(altered.size(), before.size());
    copy.restore();
    EXPECT_EQ(read_text(folder / "copy.h5"), before);
    copy.alter(canary);
    copy.renew();
    EXPECT_EQ(read_text(folder / "copy.h5"), before);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "copy.h5"));
  EXPECT_EQ(read_text(folder / "base.h5"), before);
}

TEST(PrivateCopy, ForeignBytesInTheCopyAreNoticedAtRestore) {
  const testing::TemporaryFolder folder;
  testing::write_base(folder / "base.h5");
  const ckpt::Reader base(folder / "base.h5");
  PrivateCopy copy(base, folder / "copy.h5");
  record::TrialSpec canary;
  canary.whole = {{"model/fc2.bias", record::WholeChange::negate}};
  copy.alter(canary);
  copy_file_bytes(folder / "base.h5", folder / "copy.h5");
  EXPECT_THAT(error_of([&] { copy.restore(); }), HasSubstr("copy.h5"));
}

/// A folder of two safetensors files, "a" and "b", with a tensor of the same name and two float32 in each.
class SetCopy : public ::testing::Test {
 protected:
  SetCopy() {
    std::filesystem::create_directory(folder_ / "base");
    for (const char* const name : {"a", "b"}) {
      const std::string header =
          fmt::format(R"({{"{}":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}}})", name);
      std::ofstream out(file("base", name), std::ios::binary);
      out << static_cast<char>(header.size()) << std::string(7, '\0') << header << std::string(8, '?');
    }
    replace_text(folder_ / "base" / "model.safetensors.index.json",
                 R"({"metadata":{},"weight_map":{"a":"a.safetensors","b":"b.safetensors"}})");
    base_.emplace(folder_ / "base");
    copy_.emplace(*base_, folder_ / "copy");
  }
  [[nodiscard]] std::filesystem::path file(const char* root, const std::string& name) const {
    return folder_ / root / (name + ".safetensors");
  }
  static record::TrialSpec nan_in(const std::string& tensor) {
    record::TrialSpec run;
    run.whole = {{tensor, record::WholeChange::nan}};
    return run;
  }
  [[nodiscard]] std::string in_copy(const std::string& name) const { return read_text(file("copy", name)); }
  [[nodiscard]] std::string in_base(const std::string& name) const { return read_text(file("base", name)); }
  [[nodiscard]] bool is_link(const std::string& name) const {
    return std::filesystem::is_symlink(file("copy", name));
  }
  static ino_t inode(const std::filesystem::path& path) {
    struct stat status {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0);
    return status.st_ino;
  }

  testing::TemporaryFolder folder_;
  std::optional<ckpt::Reader> base_;
  std::optional<PrivateCopy> copy_;
};

TEST_F(SetCopy, AFileBecomesACopyWhenARunAltersItAndStaysOne) {
  EXPECT_TRUE(is_link("a") && is_link("b"));
  copy_->alter(nan_in("a"));
  EXPECT_FALSE(is_link("a"));
  EXPECT_TRUE(is_link("b"));
  EXPECT_NE(in_copy("a"), in_base("a"));
  const ino_t first = inode(file("copy", "a"));
  copy_->restore();
  EXPECT_EQ(in_copy("a"), in_base("a"));
  copy_->alter(nan_in("b"));
  EXPECT_EQ(in_copy("a"), in_base("a"));
  EXPECT_NE(in_copy("b"), in_base("b"));
  copy_->restore();
  copy_->alter(nan_in("a"));
  EXPECT_EQ(inode(file("copy", "a")), first);
  EXPECT_NE(in_copy("a"), in_base("a"));
  EXPECT_EQ(in_copy("b"), in_base("b"));
  copy_->restore();
  EXPECT_EQ(in_copy("a"), in_base("a"));
}

TEST_F(SetCopy, AFileThatARunWroteToIsNotUsedAgain) {
  copy_->alter(nan_in("a"));
  std::ofstream(file("copy", "a"), std::ios::app) << "more";
  copy_->restore();
  EXPECT_TRUE(is_link("a"));
  EXPECT_EQ(in_copy("a"), in_base("a"));
  copy_->alter(nan_in("a"));
  replace_text(file("copy", "a"), "a file that a script saved under this name");
  copy_->restore();
  EXPECT_EQ(in_copy("a"), in_base("a"));
}

TEST_F(SetCopy, ACopyThatALaterRunWroteToIsNotKept) {
  copy_->alter(nan_in("a"));
  copy_->restore();
  copy_->alter(nan_in("b"));
  std::ofstream(file("copy", "a"), std::ios::app) << "more";
  copy_->restore();
  EXPECT_TRUE(is_link("a"));
  EXPECT_FALSE(is_link("b"));
  EXPECT_EQ(in_copy("a"), in_base("a"));
}

TEST_F(SetCopy, AFileThatWasWrittenToBetweenTwoRunsIsCopiedAgain) {
  copy_->alter(nan_in("a"));
  copy_->restore();
  replace_text(file("copy", "a"), "another file");
  copy_->alter(nan_in("a"));
  EXPECT_EQ(in_copy("a").size(), in_base("a").size());
  copy_->restore();
  EXPECT_EQ(in_copy("a"), in_base("a"));
}

TEST_F(SetCopy, RenewedItConsistsOfLinksAndTheBaseIsNeverTouched) {
  const std::string before = in_base("a");
  copy_->alter(nan_in("a"));
  copy_->renew();
  EXPECT_TRUE(is_link("a") && is_link("b"));
  copy_->alter(nan_in("a"));
  copy_.reset();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "copy"));
  EXPECT_EQ(in_base("a"), before);
}

}  // namespace
}  // namespace bitrift::campaign::private_copy_test
