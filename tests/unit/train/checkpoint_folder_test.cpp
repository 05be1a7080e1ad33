#include "train/state/checkpoint_folder.h"

#include <algorithm>
#include <array>
#include <fstream>

#include <gmock/gmock.h>
#include <unistd.h>

#include "ckpt/reader.h"
#include "core/file.h"
#include "sink/format/writer.h"
#include "tests_support.h"
#include "train/state/checkpoint_names.h"

namespace bitrift::train::checkpoint_folder_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using tests::error_of;

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

const char* const spec = R"({"batch_size":64,"data":{"name":"digits"},"epochs":1,"model":{"name":"lenet"},)"
                         R"("optimizer":{"learning_rate":0.05,"name":"sgd"},"seed":1,"threads":1})";

void write(const std::filesystem::path& path, std::int64_t step,
           const std::map<std::string, std::string>& attributes = {{"schema", checkpoint_schema},
                                                                   {"spec", spec}}) {
  std::array<float, 300> weights{};
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i) * 0.25F;
  ckpt::Writer writer(
      path,
      {{"model/weight", *number_format("float32"), {3, 100}}, {"progress/step", *number_format("int64"), {}}},
      attributes);
  writer.tensor("model/weight", weights.data(), sizeof weights);
  writer.tensor("progress/step", &step, sizeof step);
  writer.commit();
}

class CheckpointFolder : public ::testing::Test {
 protected:
  std::filesystem::path make(std::int64_t step) {
    write(at(step), step);
    write_bytes(at(step).string() + ".json", "{}");
    return at(step);
  }
  [[nodiscard]] std::filesystem::path at(std::int64_t step) const {
    return scratch_.path() / checkpoint_name(step);
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path()))
      found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }
  // What is wrong with the newest file, which is skipped.
  std::string skipped() {
    const Newest newest = newest_valid(scratch_.path(), Look::contents);
    EXPECT_EQ(newest.checkpoint.step, 10);
    EXPECT_EQ(newest.skipped.size(), 1U);
    EXPECT_THAT(newest.skipped.at(0), HasSubstr(at(20).string() + ": skipped: "));
    return newest.skipped.at(0);
  }
  TemporaryFolder scratch_{"checkpoints"};
};

TEST(CheckpointName, SortsByStepAndComesBack) {
  EXPECT_EQ(checkpoint_name(120), "step-0000000120.h5");
  EXPECT_EQ(step_of_name("step-0000000120.h5"), 120);
  EXPECT_EQ(step_of_name(checkpoint_name(12345678901)), 12345678901);
  EXPECT_LT(checkpoint_name(99), checkpoint_name(100));
  for (const char* other :
       {"step-120.h5", "step-0000000120.h5.json", "step-00000001x0.h5", "final.h5", "step-.h5",
        ".step-0000000120.h5", "step--000000120.h5", "step-00000000120.h5", ""})
    EXPECT_EQ(step_of_name(other), std::nullopt) << other;
}

TEST_F(CheckpointFolder, TheHighestStepIsTheNewest) {
  make(9);
  make(100);
  const auto last = make(1000);
  write(scratch_.path() / "other.h5", 5000);
  const Newest newest = newest_valid(scratch_.path(), Look::contents);
  EXPECT_EQ(newest.checkpoint.path, last);
  EXPECT_EQ(newest.checkpoint.step, 1000);
  EXPECT_THAT(newest.skipped, IsEmpty());
}

TEST_F(CheckpointFolder, WhatIsNoWholeCheckpointIsSkippedAndNamed) {
  make(10);
  const std::string whole = read_text(make(20));
  write_bytes(at(20), "");
  skipped();
  write_bytes(at(20), whole.substr(0, whole.size() / 2));
  skipped();
  write_bytes(at(20), "not a checkpoint at all");
  skipped();
  write(at(20), 20, {{"schema", "other/1"}, {"spec", spec}});
  EXPECT_THAT(skipped(), HasSubstr("expected a checkpoint of schema"));
  write(at(20), 20, {{"schema", checkpoint_schema}, {"spec", "{}"}});
  EXPECT_THAT(skipped(), HasSubstr("spec"));
  write(at(20), 19);
  EXPECT_THAT(skipped(), HasSubstr("its step is 19"));
  std::filesystem::remove(at(20));
  std::filesystem::create_directory(at(20));
  skipped();
}

TEST_F(CheckpointFolder, AFlippedBitIsSeenOrChangesNoTensor) {
  make(10);
  const std::string whole = read_text(make(20));
  std::string weights(1200, '\0'), found(1200, '\0');
  {
    const ckpt::Reader reader(at(20));
    reader.read(*reader.find("model/weight"), weights.data(), weights.size());
  }
  std::size_t seen = 0;
  for (std::size_t i = 0; i < whole.size(); i += 11) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    write_bytes(at(20), damaged);
    const Newest newest = newest_valid(scratch_.path(), Look::contents);
    seen += newest.skipped.size();
    if (newest.checkpoint.step != 20) continue;
    const ckpt::Reader reader(at(20));
    reader.read(*reader.find("model/weight"), found.data(), found.size());
    ASSERT_EQ(found, weights) << i;
  }
  EXPECT_GE(seen, 1200U / 11);  // all in a tensor
}

TEST_F(CheckpointFolder, ALookAtTheHeaderDoesNotReadTheTensors) {
  make(10);
  std::string damaged = read_text(make(20));
  const ckpt::Reader reader(at(20));
  damaged[*reader.find("model/weight")->offset + 7] ^= 1;
  write_bytes(at(20), damaged);
  EXPECT_EQ(newest_valid(scratch_.path(), Look::header).checkpoint.step, 20);
  EXPECT_THAT(skipped(), HasSubstr("tensor model/weight does not match its stored checksum"));
}

TEST_F(CheckpointFolder, AFolderWithoutAValidOneIsRefused) {
  EXPECT_THAT(error_of([&] { (void)newest_valid(scratch_.path() / "none", Look::header); }),
              HasSubstr("none"));
  EXPECT_THAT(error_of([&] { (void)newest_valid(scratch_.path(), Look::header); }),
              HasSubstr("holds no checkpoint"));
  write_bytes(at(10), "x");
  write_bytes(at(20), "x");
  EXPECT_THAT(error_of([&] { (void)newest_valid(scratch_.path(), Look::header); }),
              HasSubstr("none of its 2 checkpoint(s)"));
}

// It may be whole: another user, or the same one with the right permission, would go on from it.
TEST_F(CheckpointFolder, WhatMayNotBeReadIsNotSkipped) {
  make(10);
  std::filesystem::permissions(scratch_.path(), std::filesystem::perms::all);
  std::filesystem::permissions(make(20), std::filesystem::perms::none);
  constexpr uid_t nobody = 65534;
  const bool root = ::geteuid() == 0;
  ASSERT_TRUE(!root || ::seteuid(nobody) == 0);
  const std::string error = error_of([&] { (void)newest_valid(scratch_.path(), Look::contents); });
  ASSERT_TRUE(!root || ::seteuid(0) == 0);
  EXPECT_THAT(error, HasSubstr("step-0000000020.h5: cannot be read: Permission denied; allow it"));
}

TEST_F(CheckpointFolder, TheNewestStayWithWhatIsBesideThem) {
  for (const std::int64_t step : {10, 20, 30, 40}) make(step);
  write_bytes(scratch_.path() / "step-1.h5", "mine");
  remove_older(scratch_.path(), 40, 2);
  EXPECT_THAT(names(), ElementsAre("step-0000000030.h5", "step-0000000030.h5.json", "step-0000000040.h5",
                                   "step-0000000040.h5.json", "step-1.h5"));
  remove_older(scratch_.path(), 40, 2);
  EXPECT_EQ(names().size(), 5U);
  remove_older(scratch_.path(), 40, 1);
  EXPECT_EQ(names().size(), 3U);
}

// A damaged newer file must not push out the one that was just written.
TEST_F(CheckpointFolder, HigherStepsStayAndDoNotCount) {
  for (const std::int64_t step : {10, 20, 30, 90}) make(step);
  remove_older(scratch_.path(), 30, 1);
  EXPECT_THAT(names(), ElementsAre("step-0000000030.h5", "step-0000000030.h5.json", "step-0000000090.h5",
                                   "step-0000000090.h5.json"));
}

TEST_F(CheckpointFolder, WhatKilledProgramsLeftIsRemoved) {
  make(10);
  for (const char* name : {".step-0000000020.h5.tmp-a1B2c3", ".step-0000000010.h5.json.tmp-a1B2c3",
                           "step-0000000020.h5.json", ".step-20.h5.tmp-a1B2c3", ".other.h5.tmp-a1B2c3"})
    write_bytes(scratch_.path() / name, "x");
  const PendingFile alive(at(30));
  remove_unfinished(scratch_.path());
  EXPECT_THAT(names(), UnorderedElementsAre(".other.h5.tmp-a1B2c3", ".step-20.h5.tmp-a1B2c3",
                                            alive.path().filename().string(), "step-0000000010.h5",
                                            "step-0000000010.h5.json"));
}

}  // namespace
}  // namespace bitrift::train::checkpoint_folder_test
