#include "train/step/feed.h"

#include <atomic>
#include <numeric>

#include <gmock/gmock.h>

#include "core/error.h"
#include "tests_support.h"

namespace bitrift::train::feed_test {
namespace {

using testing::HasSubstr;

// Row r of (seed, epoch) is one number that names all three; row 13 cannot be made.
class Numbers : public nn::Dataset {
 public:
  Numbers() : Dataset({.train_size = 64, .test_size = 1, .input_shape = {1}, .classes = 2}) {}
  [[nodiscard]] nn::Batch train_batch(std::span<const std::int64_t> rows, std::uint64_t seed,
                                      std::int64_t epoch) const override {
    ++made;
    torch::Tensor inputs = torch::empty({static_cast<std::int64_t>(rows.size())}, torch::kInt64);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] == 13) fail(ErrorCode::bad_file, "row 13 is damaged");
      inputs[static_cast<std::int64_t>(i)] =
          rows[i] + 1000 * static_cast<std::int64_t>(seed) + 1000000 * epoch;
    }
    return {inputs, inputs};
  }
  [[nodiscard]] nn::Batch test_batch(std::int64_t, std::int64_t) const override { return {}; }
  mutable std::atomic<int> made = 0;
};

std::vector<std::int64_t> numbers(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

std::vector<std::int64_t> contents(const std::vector<MicroBatch>& micro) {
  std::vector<std::int64_t> all;
  for (const MicroBatch& one : micro) {
    const auto* data = one.batch.inputs.const_data_ptr<std::int64_t>();
    all.insert(all.end(), data, data + one.batch.inputs.numel());
  }
  return all;
}

TEST(Feed, GivesEachReplicaItsMicroBatchesInOrder) {
  const Numbers data;
  const std::vector<std::int64_t> rows = numbers(20, 8);
  Feed feed(data, 1, 2, 2, true, 0);
  const std::vector<MicroBatch> micro = feed.take({.batch = rows, .seed = 3, .epoch = 2});
  ASSERT_EQ(micro.size(), 2U);
  EXPECT_THAT(micro[0].samples, testing::ElementsAre(24, 25));
  EXPECT_THAT(micro[1].samples, testing::ElementsAre(26, 27));
  EXPECT_THAT(contents(micro), testing::ElementsAre(2003024, 2003025, 2003026, 2003027));
  EXPECT_FALSE(feed.wants_more());
}

TEST(Feed, MakesNoBatchWhereOnlySampleNumbersAreWanted) {
  const Numbers data;
  const std::vector<std::int64_t> rows = numbers(0, 4);
  Feed feed(data, 0, 1, 2, false, 2);
  EXPECT_THAT(feed.take({.batch = rows})[1].samples, testing::ElementsAre(2, 3));
  EXPECT_EQ(data.made, 0);
  EXPECT_FALSE(feed.wants_more());
}

TEST(Feed, AThreadAheadChangesNoBatch) {
  const Numbers data;
  const std::vector<std::int64_t> rows = numbers(16, 48);
  Feed plain(data, 0, 1, 2, true, 0), ahead(data, 0, 1, 2, true, 2);
  const auto step = [&](std::size_t number) {
    return StepInput{.batch = std::span(rows).subspan(8 * number, 8), .seed = 1, .epoch = 0};
  };
  for (std::size_t number = 0; number < 6; ++number) {
    while (ahead.wants_more() && number + ahead.waiting() < 6) ahead.expect(step(number + ahead.waiting()));
    EXPECT_EQ(contents(ahead.take(step(number))), contents(plain.take(step(number)))) << number;
  }
  EXPECT_EQ(ahead.waiting(), 0U);
  EXPECT_EQ(data.made, 2 * 6 * 2) << "each batch is made once by each feed";
}

TEST(Feed, AWrongGuessIsDropped) {
  const Numbers data;
  const std::vector<std::int64_t> rows = numbers(16, 16);
  const StepInput guess{.batch = std::span(rows).subspan(0, 8), .seed = 1, .epoch = 0};
  for (const StepInput& wanted : {StepInput{.batch = std::span(rows).subspan(8, 8), .seed = 1, .epoch = 0},
                                  StepInput{.batch = std::span(rows).subspan(0, 8), .seed = 2, .epoch = 0},
                                  StepInput{.batch = std::span(rows).subspan(0, 8), .seed = 1, .epoch = 1}}) {
    Feed feed(data, 0, 1, 1, true, 2), plain(data, 0, 1, 1, true, 0);
    feed.expect(guess);
    feed.expect(guess);
    EXPECT_EQ(contents(feed.take(wanted)), contents(plain.take(wanted)));
    EXPECT_EQ(feed.waiting(), 0U);
  }
}

TEST(Feed, AnErrorOnTheThreadIsThrownByTheStepThatNeedsIt) {
  const Numbers data;
  const std::vector<std::int64_t> rows = numbers(0, 16);
  const StepInput good{.batch = std::span(rows).subspan(0, 8)}, bad{.batch = std::span(rows).subspan(8, 8)};
  Feed feed(data, 0, 1, 1, true, 2);
  feed.expect(good);
  feed.expect(bad);
  EXPECT_EQ(contents(feed.take(good)).size(), 8U);
  EXPECT_THAT(tests::error_of([&] { (void)feed.take(bad); }), HasSubstr("row 13 is damaged"));
  feed.expect(bad);  // and a feed may end while its thread works
}

}  // namespace
}  // namespace bitrift::train::feed_test
