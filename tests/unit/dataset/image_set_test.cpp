#include "dataset/image_set.h"

#include <cstdlib>
#include <random>

#include <gmock/gmock.h>

#include "dataset/load_dataset.h"
#include "tests_support.h"
#include "unit/dataset/data_support.h"

namespace bitrift::nn::image_set_test {
namespace {

using bitrift::tests::error_of;
using testing::AllOf;
using testing::HasSubstr;
using tests::idx;

constexpr std::size_t record = 3073;

class ImageSetTest : public tests::FolderTest {
 protected:
  // Three training and two test images of 2x2.
  void write_idx() {
    write("train-images-idx3-ubyte",
          idx(0x803, {3, 2, 2}, std::string("\x07\1\2\3\4\5\6\7\x10\x20\x30\xff", 12)));
    write("train-labels-idx1-ubyte", idx(0x801, {3}, std::string("\0\1\2", 3)));
    write("t10k-images-idx3-ubyte", idx(0x803, {2, 2, 2}, std::string(8, '\xff')));
    write("t10k-labels-idx1-ubyte", idx(0x801, {2}, std::string("\2\0", 2)));
  }
  void write_cifar10() {
    for (int number = 1; number <= 5; ++number) {
      std::string bytes(2 * record, static_cast<char>(number));
      for (std::size_t i = 0; i < 5; ++i) bytes[record + 1 + i] = static_cast<char>(i);
      write("data_batch_" + std::to_string(number) + ".bin", bytes);
    }
    write("test_batch.bin", std::string(record, '\x09'));
  }
  record::DataSpec named(const std::string& name) {
    record::DataSpec description;
    description.name = parse_named<record::DataName>(name);
    description.path = folder_.string();
    return description;
  }
  static std::string refusal(const record::DataSpec& description, const record::ModelSpec& model = {}) {
    return error_of([&] { (void)load_dataset(description, model); });
  }
};

std::vector<float> values(const torch::Tensor& tensor) {
  const torch::Tensor dense = tensor.contiguous();
  return {dense.data_ptr<float>(), dense.data_ptr<float>() + dense.numel()};
}

TEST_F(ImageSetTest, AnIdxSetGivesItsImagesOver255AndItsLabels) {
  write_idx();
  const auto set = load_dataset(named("idx"));
  EXPECT_EQ(set->train_size(), 3);
  EXPECT_EQ(set->test_size(), 2);
  EXPECT_EQ(set->classes(), 3);
  EXPECT_EQ(set->targets_per_sample(), 1);
  EXPECT_FALSE(set->costly());
  EXPECT_EQ(set->input_shape(), (std::vector<std::int64_t>{1, 2, 2}));
  const std::vector<std::int64_t> rows{2, 0};
  const Batch batch = set->train_batch(rows, 1, 0);
  EXPECT_EQ(values(batch.inputs), (std::vector<float>{16 / 255.0F, 32 / 255.0F, 48 / 255.0F, 1, 7 / 255.0F,
                                                      1 / 255.0F, 2 / 255.0F, 3 / 255.0F}));
  EXPECT_EQ(batch.inputs.sizes().vec(), (std::vector<std::int64_t>{2, 1, 2, 2}));
  EXPECT_EQ(batch.targets[0].item<std::int64_t>(), 2);
  const Batch test = set->test_batch(1, 2);
  EXPECT_EQ(values(test.inputs), std::vector<float>(4, 1));
  EXPECT_EQ(test.targets.item<std::int64_t>(), 0);
  // What a batch does to its tensors stays in the batch.
  test.inputs.zero_();
  EXPECT_EQ(values(set->test_batch(1, 2).inputs), std::vector<float>(4, 1));
}

TEST_F(ImageSetTest, SamplesOutsideTheSetAreRefused) {
  write_idx();
  const auto set = load_dataset(named("idx"));
  for (const std::int64_t row : {-1, 3}) {
    const std::vector<std::int64_t> rows{0, row};
    EXPECT_THAT(error_of([&] { (void)set->train_batch(rows, 1, 0); }), HasSubstr(std::to_string(row)));
  }
  EXPECT_THAT(error_of([&] { (void)set->test_batch(0, 3); }), HasSubstr("0 to 1"));
  EXPECT_THAT(error_of([&] { (void)set->test_batch(2, 1); }), HasSubstr("0 to 1"));
}

TEST_F(ImageSetTest, FilesThatDoNotFitEachOtherAreRefused) {
  write_idx();
  write("train-labels-idx1-ubyte", idx(0x801, {2}, "ab"));
  EXPECT_THAT(refusal(named("idx")),
              AllOf(HasSubstr("train-labels"), HasSubstr("expected 3 labels"), HasSubstr("found 2")));
  write_idx();
  write("t10k-images-idx3-ubyte", idx(0x803, {2, 1, 2}, "abcd"));
  EXPECT_THAT(refusal(named("idx")), AllOf(HasSubstr("2x2"), HasSubstr("1x2")));
  write_idx();
  write("t10k-labels-idx1-ubyte", idx(0x801, {2}, std::string("\0\3", 2)));
  EXPECT_THAT(refusal(named("idx")), AllOf(HasSubstr("t10k-labels"), HasSubstr("record 1"),
                                           HasSubstr("0 to 2"), HasSubstr("found 3")));
}

TEST_F(ImageSetTest, LabelsBeyondTheExpectedClassesAreRefusedByFileAndRecord) {
  write_idx();
  EXPECT_THAT(refusal(named("idx"), {.classes = 2}),
              AllOf(HasSubstr("train-labels"), HasSubstr("record 2"), HasSubstr("model.classes")));
  EXPECT_EQ(load_dataset(named("idx"), {.classes = 7})->classes(), 7);
  write_cifar10();
  EXPECT_THAT(refusal(named("cifar10"), {.classes = 5}),
              AllOf(HasSubstr("data_batch_5.bin"), HasSubstr("record 0"), HasSubstr("found 5")));
}

TEST_F(ImageSetTest, CifarRecordsAreReadPlaneByPlaneInFileOrder) {
  write_cifar10();
  const auto set = load_dataset(named("cifar10"));
  EXPECT_EQ(set->train_size(), 10);
  EXPECT_EQ(set->classes(), 10);
  EXPECT_EQ(set->input_shape(), (std::vector<std::int64_t>{3, 32, 32}));
  const std::vector<std::int64_t> rows{3};
  const Batch batch = set->train_batch(rows, 1, 0);
  EXPECT_EQ(batch.inputs[0][0][0][4].item<float>(), 4 / 255.0F);
  EXPECT_EQ(batch.inputs[0][2][31][31].item<float>(), 2 / 255.0F);
  EXPECT_EQ(set->test_batch(0, 1).targets.item<std::int64_t>(), 9);
}

TEST_F(ImageSetTest, Cifar100UsesTheFineLabel) {
  write("cifar-100-binary/train.bin", "\x13\x63" + std::string(3072, 'x'));
  write("cifar-100-binary/test.bin", std::string("\0\7", 2) + std::string(3072, 'y'));
  const auto set = load_dataset(named("cifar100"));
  EXPECT_EQ(set->classes(), 100);
  const std::vector<std::int64_t> rows{0};
  EXPECT_EQ(set->train_batch(rows, 1, 0).targets.item<std::int64_t>(), 99);
  EXPECT_EQ(set->test_batch(0, 1).targets.item<std::int64_t>(), 7);
  write("cifar-100-binary/test.bin", std::string("\x14\7", 2) + std::string(3072, 'y'));
  EXPECT_THAT(refusal(named("cifar100")),
              AllOf(HasSubstr("test.bin"), HasSubstr("coarse"), HasSubstr("found 20")));
}

TEST_F(ImageSetTest, DamagedCifarFilesAreRefusedByName) {
  write_cifar10();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, record - 1, record + 1, 2 * record - 1}) {
    write("data_batch_3.bin", std::string(size, '\1'));
    EXPECT_THAT(refusal(named("cifar10")), AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("3073"))) << size;
  }
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    std::string bytes(record, '\1');
    bytes[random() % 4] = static_cast<char>(random());
    write("data_batch_3.bin", bytes);
    const std::string text = refusal(named("cifar10"));
    const bool bad = static_cast<std::uint8_t>(bytes[0]) > 9;
    EXPECT_EQ(text.empty(), !bad) << text;
  }
}

TEST_F(ImageSetTest, AMissingDataSetSaysHowToGetIt) {
  EXPECT_THAT(refusal(named("idx")), AllOf(HasSubstr("ubyte[.gz] does not exist"), HasSubstr("data.path")));
  EXPECT_THAT(refusal(named("fashion-mnist")), HasSubstr("tools/setup --with-data"));
  EXPECT_THAT(refusal(named("cifar10")), AllOf(HasSubstr("cifar-10-binary.tar.gz"), HasSubstr("Toronto")));
  record::DataSpec digits = named("folder");
  digits.crop = 8;
  EXPECT_THAT(refusal(digits), HasSubstr("train/CLASS"));
  ::setenv("BITRIFT_DATA_DIR", folder_.c_str(), 1);
  digits = {};
  digits.name = record::DataName::digits;
  const std::string text = refusal(digits);
  std::filesystem::create_directories(folder_ / "fashion-mnist");
  digits.name = record::DataName::fashion_mnist;
  const std::filesystem::path fashion = dataset_folder(digits);
  ::unsetenv("BITRIFT_DATA_DIR");
  EXPECT_THAT(text, AllOf(HasSubstr((folder_ / "digits").string()), HasSubstr("BITRIFT_DATA_DIR")));
  EXPECT_EQ(fashion, folder_ / "fashion-mnist");
}

TEST_F(ImageSetTest, KeysThatDoNotFitAreRefusedByName) {
  write_idx();
  const auto with = [&](auto change) {
    record::DataSpec description = named("idx");
    change(description);
    return refusal(description);
  };
  EXPECT_THAT(with([](auto& d) { d.channels = 2; }), HasSubstr("data.channels"));
  EXPECT_THAT(with([](auto& d) { d.mean = {0.5}; }), HasSubstr("data.mean"));
  EXPECT_THAT(with([](auto& d) { d.mean = d.std = {0.5, 0.5, 0.5}; }), HasSubstr("data.mean"));
  EXPECT_THAT(with([](auto& d) { d.mean = {0.5}, d.std = {0}; }), HasSubstr("data.std"));
  EXPECT_THAT(with([](auto& d) { d.train_samples = 4; }),
              AllOf(HasSubstr("data.train_samples"), HasSubstr("only 3")));
  write_cifar10();
  record::DataSpec grey = named("cifar10");
  grey.channels = 1;
  EXPECT_THAT(refusal(grey), HasSubstr("data.channels is 1"));
}

TEST_F(ImageSetTest, GreyImagesAreRepeatedAndEachChannelNormalised) {
  write_idx();
  record::DataSpec description = named("idx");
  description.channels = 3;
  description.mean = {0.5, 0.25, 0};
  description.std = {0.5, 0.1, 2};
  const auto set = load_dataset(description);
  EXPECT_EQ(set->input_shape(), (std::vector<std::int64_t>{3, 2, 2}));
  const torch::Tensor inputs = set->test_batch(0, 2).inputs;
  EXPECT_EQ(inputs[1][0][1][1].item<float>(), (1 - 0.5F) / 0.5F);
  EXPECT_EQ(inputs[1][1][1][1].item<float>(), (1 - 0.25F) / 0.1F);
  EXPECT_EQ(inputs[1][2][1][1].item<float>(), 1 / 2.0F);
  EXPECT_TRUE(inputs.is_contiguous());
}

TEST_F(ImageSetTest, ASampleIsTheSameBitsInEveryBatchAndItsDrawsFollowSeedAndEpoch) {
  record::DataSpec description;
  description.name = record::DataName::digits;
  description.crop_padding = 2;
  description.flip = true;
  for (const std::int64_t resize : {0, 12}) {
    description.resize = resize;
    const auto set = load_dataset(description);
    EXPECT_TRUE(set->costly());
    std::vector<std::int64_t> all(60), one{41}, two{7, 41};
    std::iota(all.begin(), all.end(), 0);
    const torch::Tensor whole = set->train_batch(all, 5, 3).inputs;
    EXPECT_TRUE(torch::equal(whole[41], set->train_batch(one, 5, 3).inputs[0]));
    EXPECT_TRUE(torch::equal(whole[41], set->train_batch(two, 5, 3).inputs[1]));
    EXPECT_FALSE(torch::equal(whole, set->train_batch(all, 6, 3).inputs));
    EXPECT_FALSE(torch::equal(whole, set->train_batch(all, 5, 4).inputs));
    EXPECT_EQ(set->train_batch(one, 5, std::int64_t{1} << 40).inputs.size(3), resize == 0 ? 8 : 12);
    EXPECT_TRUE(torch::equal(set->test_batch(0, 9).inputs[4], set->test_batch(4, 5).inputs[0]));
  }
}

TEST(Augment, EveryPlaceAndBothSidesAreDrawnEquallyOften) {
  const AugmentDraws draws(1, 0);
  std::array<int, 9> places{};
  int flips = 0;
  constexpr int samples = 90000;
  for (int i = 0; i < samples; ++i) {
    ++places.at(static_cast<std::size_t>(draws.crop(i, 9)));
    flips += draws.flip(i) ? 1 : 0;
  }
  for (const int count : places) EXPECT_NEAR(count, 10000, 5 * 95);
  EXPECT_NEAR(flips, samples / 2, 5 * 150);
}

TEST(Augment, DrawsAreThoseOfTheDocuments) {
  const AugmentDraws draws(1, 0);
  std::vector<std::int64_t> places;
  std::vector<bool> flips;
  for (std::int64_t sample = 0; sample < 8; ++sample) {
    places.push_back(draws.crop(sample, 81));
    flips.push_back(draws.flip(sample));
  }
  EXPECT_EQ(places, (std::vector<std::int64_t>{1, 43, 20, 46, 41, 75, 34, 9}));
  EXPECT_EQ(flips, (std::vector<bool>{true, true, true, true, false, true, true, true}));
}

TEST(Augment, MovedImagesAreThePaddedOnesCut) {
  const torch::Tensor images = torch::arange(1, 1 + 40 * 2 * 3 * 5, torch::kFloat32).view({40, 2, 3, 5});
  for (const std::int64_t padding : {0, 1, 4, 7}) {
    std::vector<std::int64_t> rows(40);
    std::iota(rows.begin(), rows.end(), 100);
    const AugmentDraws draws(9, 2);
    const torch::Tensor moved = augment_images(images, rows, draws, padding, true);
    const torch::Tensor padded = torch::constant_pad_nd(images, {padding, padding, padding, padding});
    const std::int64_t side = 2 * padding + 1;
    for (std::int64_t i = 0; i < 40; ++i) {
      const std::int64_t place = draws.crop(100 + i, side * side);
      torch::Tensor expected = padded[i].narrow(1, place / side, 3).narrow(2, place % side, 5);
      if (draws.flip(100 + i)) expected = expected.flip({2});
      EXPECT_TRUE(torch::equal(moved[i], expected)) << padding << " " << i;
    }
    const torch::Tensor bytes = augment_images(images.to(torch::kUInt8), rows, draws, padding, true);
    EXPECT_TRUE(torch::equal(bytes, moved.to(torch::kUInt8)));
  }
}

TEST(Digits, ShipAsAnIdxDataSet) {
  record::DataSpec description;
  description.name = record::DataName::digits;
  description.train_samples = 1000;
  const auto digits = load_dataset(description);
  EXPECT_EQ(digits->classes(), 10);
  EXPECT_EQ(digits->train_size(), 1000);
  EXPECT_EQ(digits->test_size(), 360);
  EXPECT_EQ(digits->input_shape(), (std::vector<std::int64_t>{1, 8, 8}));
}

}  // namespace
}  // namespace bitrift::nn::image_set_test
