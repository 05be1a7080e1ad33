#include "dataset/image_folder.h"

#include <gmock/gmock.h>

#include "dataset/load_dataset.h"
#include "tests_support.h"
#include "unit/dataset/data_support.h"
#include "unit/dataset/sample_images.h"

namespace bitrift::nn::image_folder_test {
namespace {

using bitrift::tests::error_of;
using testing::AllOf;
using testing::HasSubstr;
using tests::from_base64;

class Folder : public tests::FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    write("train/cat/b.jpg", from_base64(tests::jpeg_base64));
    write("train/cat/a.PNG", from_base64(tests::png_base64));
    write("train/ant/x.jpeg", from_base64(tests::progressive_base64));
    write("train/.hidden/x.txt", "x");
    write("val/ant/1.png", from_base64(tests::palette_base64));
    write("val/cat/1.png", from_base64(tests::png_base64));
  }
  record::DataSpec described() {
    record::DataSpec description;
    description.name = record::DataName::folder;
    description.path = folder_.string();
    description.crop = 6;
    return description;
  }
  std::string refusal() {
    return error_of([&] { (void)load_dataset(described()); });
  }
};

TEST_F(Folder, LabelsAreTheSortedClassesAndSamplesTheSortedFiles) {
  const auto set = load_dataset(described());
  EXPECT_EQ(set->train_size(), 3);
  EXPECT_EQ(set->test_size(), 2);
  EXPECT_EQ(set->classes(), 2);
  EXPECT_TRUE(set->costly());
  EXPECT_EQ(set->input_shape(), (std::vector<std::int64_t>{3, 6, 6}));
  const Batch batch = set->train_batch(std::vector<std::int64_t>{1, 0, 2}, 1, 0);
  EXPECT_TRUE(torch::equal(batch.targets, torch::tensor({1, 0, 1}, torch::kInt64)));
  // cat/a.PNG, cut in the middle: of 9 rows from 2 (1.5 to even), of 11 columns from 2 (2.5 to even).
  EXPECT_EQ(batch.inputs[0][0][0][0].item<float>(), 2 * 23 / 255.0F);
  EXPECT_EQ(batch.inputs[0][1][0][0].item<float>(), 2 * 28 / 255.0F);
  EXPECT_EQ(batch.inputs[0][1][5][5].item<float>(), 7 * 28 / 255.0F);
  EXPECT_TRUE(torch::equal(batch.inputs[0], set->test_batch(1, 2).inputs[0]));
}

TEST_F(Folder, TheTestSplitMayBeNamedTest) {
  std::filesystem::rename(folder_ / "val", folder_ / "test");
  EXPECT_EQ(load_dataset(described())->test_size(), 2);
  std::filesystem::remove_all(folder_ / "test");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("test does not exist"), HasSubstr("train/CLASS")));
}

TEST_F(Folder, RandomCropsReachEveryPlaceAndFollowSeedAndEpoch) {
  record::DataSpec description = described();
  description.random_crop = true;
  const auto set = load_dataset(description);
  std::set<std::pair<float, float>> places;
  const std::vector<std::int64_t> one{1};
  for (std::int64_t epoch = 0; epoch < 300; ++epoch) {
    const torch::Tensor image = set->train_batch(one, 3, epoch).inputs[0];
    places.emplace(image[0][0][0].item<float>(), image[1][0][0].item<float>());
  }
  EXPECT_EQ(places.size(), 4U * 6U);  // rows 0 to 3, columns 0 to 5
  EXPECT_TRUE(torch::equal(set->train_batch(one, 3, 5).inputs[0],
                           set->train_batch(std::vector<std::int64_t>{0, 1}, 3, 5).inputs[1]));
}

TEST_F(Folder, ResizingBringsTheShorterSide) {
  record::DataSpec description = described();
  description.resize = 18;
  description.crop = 18;
  const torch::Tensor image = load_dataset(description)->test_batch(1, 2).inputs[0];
  EXPECT_EQ(image.sizes().vec(), (std::vector<std::int64_t>{3, 18, 18}));
  description.crop = 19;
  EXPECT_THAT(error_of([&] { (void)load_dataset(description); }), HasSubstr("data.crop 19"));
}

TEST_F(Folder, BadFilesAreRefusedAtLoadByName) {
  const auto with = [&](const std::string& name, const std::string& content) {
    write(name, content);
    const std::string text = refusal();
    std::filesystem::remove(folder_ / name);
    return text;
  };
  EXPECT_THAT(with("train/ant/z.jpg", "no image"), HasSubstr("train/ant/z.jpg"));
  EXPECT_THAT(with("val/ant/z.jpg", from_base64(tests::jpeg_base64).substr(0, 300)),
              HasSubstr("val/ant/z.jpg"));
  EXPECT_THAT(with("train/cat/c.jpg", from_base64(tests::cmyk_base64)),
              AllOf(HasSubstr("c.jpg"), HasSubstr("CMYK")));
  EXPECT_THAT(with("train/cat/notes.txt", "x"), AllOf(HasSubstr("notes.txt"), HasSubstr(".png")));
  EXPECT_EQ(with("train/cat/.DS_Store", "x"), "");
  EXPECT_EQ(refusal(), "");
  std::filesystem::create_directories(folder_ / "val" / "dog");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("dog")));
  write("val/dog/1.png", from_base64(tests::png_base64));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("class dog"), HasSubstr("train")));
}

TEST_F(Folder, AFileThatBreaksLaterIsNamedByTheBatch) {
  const auto set = load_dataset(described());
  write("train/cat/b.jpg", from_base64(tests::jpeg_base64).substr(0, 300));
  EXPECT_THAT(error_of([&] {
                (void)set->train_batch(std::vector<std::int64_t>{0, 2}, 1, 0);
              }),
              HasSubstr("train/cat/b.jpg"));
  std::filesystem::remove(folder_ / "train/cat/b.jpg");
  EXPECT_THAT(error_of([&] { (void)set->train_batch(std::vector<std::int64_t>{2}, 1, 0); }),
              HasSubstr("b.jpg"));
}

TEST_F(Folder, KeysThatDoNotFitAreRefusedByName) {
  const auto with = [&](auto change) {
    record::DataSpec description = described();
    change(description);
    return error_of([&] { (void)load_dataset(description); });
  };
  EXPECT_THAT(with([](auto& d) { d.crop = 10; }), AllOf(HasSubstr("11 x 9"), HasSubstr("too small")));
  EXPECT_THAT(with([](auto& d) { d.channels = 1; }), HasSubstr("data.channels"));
  EXPECT_THAT(with([](auto& d) { d.mean = {0.1, 0.2}, d.std = {1}; }), HasSubstr("data.mean"));
  EXPECT_EQ(with([](auto& d) { d.mean = {0.1, 0.2, 0.3}, d.std = {1}, d.channels = 3; }), "");
}

}  // namespace
}  // namespace bitrift::nn::image_folder_test
