#include "dataset/text_set.h"

#include <gmock/gmock.h>

#include "dataset/load_dataset.h"
#include "dataset/vocabulary.h"
#include "tests_support.h"
#include "unit/dataset/data_support.h"

namespace bitrift::nn::text_set_test {
namespace {

using bitrift::tests::error_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class Text : public tests::FolderTest {
 protected:
  record::DataSpec described(const std::string& text) {
    record::DataSpec description;
    description.name = record::DataName::text;
    description.path = write("text.txt", text).string();
    return description;
  }
  static std::unique_ptr<Dataset> load(const record::DataSpec& description, int context) {
    return load_dataset(description, {.context = context});
  }
  static std::string refusal(const record::DataSpec& description, int context) {
    return error_of([&] { (void)load(description, context); });
  }
  std::string vocabulary_refusal(const std::string& content) {
    const auto path = write("tokens", content);
    std::string text = error_of([&] { (void)Vocabulary(path); });
    EXPECT_TRUE(text.empty() || text.starts_with(path.string())) << text;
    return text;
  }
};

std::string alphabet(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += static_cast<char>('a' + i % 26);
  return text;
}

std::vector<std::int64_t> ids(const torch::Tensor& tensor) {
  const torch::Tensor dense = tensor.contiguous();
  return {dense.data_ptr<std::int64_t>(), dense.data_ptr<std::int64_t>() + dense.numel()};
}

TEST_F(Text, NextTokenTargetsAreTheInputsOneLater) {
  const auto set = load(described(alphabet(50)), 4);  // 45 tokens to train with, 5 to test
  EXPECT_EQ(set->train_size(), 11);
  EXPECT_EQ(set->test_size(), 1);
  EXPECT_EQ(set->classes(), 256);
  EXPECT_EQ(set->targets_per_sample(), 4);
  EXPECT_EQ(set->input_shape(), std::vector<std::int64_t>{4});
  const std::vector<std::int64_t> rows{10, 0};
  const Batch batch = set->train_batch(rows, 1, 0);
  EXPECT_EQ(batch.inputs.scalar_type(), torch::kInt64);
  EXPECT_THAT(ids(batch.inputs), ElementsAre('o', 'p', 'q', 'r', 'a', 'b', 'c', 'd'));
  EXPECT_THAT(ids(batch.targets), ElementsAre('p', 'q', 'r', 's', 'b', 'c', 'd', 'e'));
  EXPECT_THAT(ids(set->test_batch(0, 1).inputs), ElementsAre('t', 'u', 'v', 'w'));
  EXPECT_THAT(ids(set->test_batch(0, 1).targets), ElementsAre('u', 'v', 'w', 'x'));
}

TEST_F(Text, SamplesNeedOneTokenMoreOnlyWhereTheNextIsAsked) {
  record::DataSpec description = described(alphabet(16));
  description.test_fraction = 0.5;  // 8 and 8
  EXPECT_EQ(load(description, 4)->train_size(), 1);
  description.mask_fraction = 0.1;
  EXPECT_EQ(load(description, 4)->train_size(), 2);
  EXPECT_EQ(load(description, 8)->test_size(), 1);
  description.mask_fraction = 0;
  EXPECT_THAT(refusal(description, 8),
              AllOf(HasSubstr("training set has 8 tokens"), HasSubstr("model.context 8")));
}

TEST_F(Text, MaskedSamplesAskExactlyTheirShareAndChangeNothingElse) {
  record::DataSpec description = described(alphabet(64000));
  description.mask_fraction = 0.15;
  const auto set = load(description, 64);
  EXPECT_EQ(set->classes(), 257);
  EXPECT_EQ(set->targets_per_sample(), 10);  // 9.6
  std::vector<std::int64_t> rows(900);
  std::iota(rows.begin(), rows.end(), 0);
  const Batch batch = set->train_batch(rows, 4, 2);
  const torch::Tensor asked = batch.targets != -100;
  EXPECT_TRUE(torch::equal(asked.sum(1), torch::full({900}, 10, torch::kInt64)));
  std::string text = alphabet(57600);
  const torch::Tensor original = torch::from_blob(text.data(), {900, 64}, torch::kUInt8).to(torch::kInt64);
  EXPECT_TRUE(torch::equal(torch::where(asked, batch.targets, batch.inputs), original));
  const double masks = (batch.inputs == 256).sum().item<double>();
  const double changed = (batch.inputs != original).sum().item<double>() - masks;
  EXPECT_NEAR(masks, 7200, 5 * 38);                   // 0.8 of 9000
  EXPECT_NEAR(changed, 900 * 255.0 / 256, 5 * 28.5);  // 0.1
  const auto per_position = asked.sum(0).to(torch::kFloat64);
  EXPECT_NEAR(per_position.mean().item<double>(), 9000 / 64.0, 1e-9);
  EXPECT_LT((per_position - 9000 / 64.0).abs().max().item<double>(), 5 * 10.9);
}

TEST_F(Text, MasksFollowSeedEpochAndSampleAndTestMasksStand) {
  record::DataSpec description = described(alphabet(6400));
  description.mask_fraction = 0.15;
  const auto set = load(description, 64);
  const std::vector<std::int64_t> some{3, 50, 7}, one{50};
  const Batch batch = set->train_batch(some, 4, 2);
  EXPECT_TRUE(torch::equal(batch.inputs[1], set->train_batch(one, 4, 2).inputs[0]));
  EXPECT_FALSE(torch::equal(batch.targets, set->train_batch(some, 4, 3).targets));
  EXPECT_FALSE(torch::equal(batch.targets, set->train_batch(some, 5, 2).targets));
  EXPECT_TRUE(torch::equal(set->test_batch(0, 5).inputs[4], set->test_batch(4, 5).inputs[0]));
  EXPECT_GT((set->test_batch(0, 5).inputs == 256).sum().item<int>(), 0);
}

TEST_F(Text, GzippedTextReadsAsPlainText) {
  record::DataSpec description = described(alphabet(500));
  const auto plain = load(description, 8);
  description.path = write("text.gz", tests::gzip(alphabet(500))).string();
  const auto packed = load(description, 8);
  EXPECT_TRUE(torch::equal(plain->test_batch(0, 6).inputs, packed->test_batch(0, 6).inputs));
  const std::string whole = tests::gzip(alphabet(500));
  for (std::size_t size = 3; size < whole.size(); ++size) {
    write("text.gz", whole.substr(0, size));
    EXPECT_THAT(refusal(description, 8), HasSubstr("truncated")) << size;
  }
}

TEST_F(Text, VocabulariesAreMatchedGreedilyByTheLongestToken) {
  const Vocabulary vocabulary(write("tokens", "a\nab\nabc\n\\n\n\\\\\n\\s\nb\n\xc3\xa9\nbcd"));
  EXPECT_EQ(vocabulary.size(), 9);
  EXPECT_THAT(vocabulary.encode("abcab\n\\ \xc3\xa9"
                                "bcdb",
                                "t"),
              ElementsAre(2, 1, 3, 4, 5, 7, 8, 6));
}

TEST_F(Text, APositionThatNoTokenMatchesIsRefusedByOffset) {
  record::DataSpec description = described("abababab ab");
  description.vocabulary = write("tokens", "ab\na\nb\n").string();
  EXPECT_THAT(refusal(description, 2),
              AllOf(HasSubstr("text.txt: byte 8"), HasSubstr("32"), HasSubstr("tokens")));
  std::string text(121, 'a');
  text[100] = 'b';
  description = described(text);
  description.vocabulary = (folder_ / "tokens").string();
  const auto set = load(description, 2);
  EXPECT_EQ(set->classes(), 3);
  EXPECT_THAT(ids(set->train_batch(std::vector<std::int64_t>{49, 50}, 1, 0).inputs), ElementsAre(1, 0, 1, 1));
}

TEST_F(Text, DamagedVocabulariesAreRefusedByLine) {
  EXPECT_EQ(vocabulary_refusal("a\nb\n"), "");
  EXPECT_THAT(vocabulary_refusal("a\n\nb\n"), HasSubstr("line 2"));
  EXPECT_THAT(vocabulary_refusal("a\nb\na\n"), AllOf(HasSubstr("line 3"), HasSubstr("earlier")));
  EXPECT_THAT(vocabulary_refusal("\\s\n \n"), HasSubstr("line 2"));
  EXPECT_THAT(vocabulary_refusal("a\n\\x\n"), HasSubstr("line 2"));
  EXPECT_THAT(vocabulary_refusal("a\nb\\"), HasSubstr("line 2"));
  EXPECT_THAT(vocabulary_refusal("a\n"), HasSubstr("at least 2"));
  EXPECT_THAT(vocabulary_refusal(""), HasSubstr("at least 2"));
  for (const char* bad :
       {"\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80", "\xff"}) {
    EXPECT_THAT(vocabulary_refusal(std::string("a\n") + bad), AllOf(HasSubstr("line 2"), HasSubstr("UTF-8")))
        << bad;
  }
}

TEST_F(Text, KeysThatDoNotFitAreRefusedByName) {
  const auto with = [&](auto change) {
    record::DataSpec description = described(alphabet(100));
    change(description);
    return refusal(description, 4);
  };
  EXPECT_THAT(with([](auto& d) { d.test_fraction = 0.01; }), HasSubstr("test set has 1 tokens"));
  EXPECT_THAT(with([](auto& d) { d.vocabulary = "nowhere"; }), HasSubstr("nowhere"));
  EXPECT_THAT(with([](auto& d) { d.path += "x"; }), AllOf(HasSubstr("text.txtx"), HasSubstr("data.path")));
  EXPECT_THAT(with([](auto& d) { d.name = record::DataName::jargon, d.path = ""; }), "");
}

TEST(Jargon, ShipsAsText) {
  record::DataSpec description;
  description.name = record::DataName::jargon;
  const auto jargon = load_dataset(description, {.context = 128});
  EXPECT_EQ(jargon->train_size(), 9697);
  EXPECT_EQ(jargon->test_size(), 1077);
  EXPECT_LT(jargon->train_batch(std::vector<std::int64_t>{9696}, 1, 0).inputs.max().item<int>(), 127);
}

}  // namespace
}  // namespace bitrift::nn::text_set_test
