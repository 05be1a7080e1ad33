// What a training does without a piece of its state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ckpt/reader.h"
#include "study/state/left_out.h"
#include "study/state/state_part.h"
#include "study/state/state_summary.h"
#include "unit/places.h"
#include "unit/scratch.h"

namespace bitrift::study {
namespace {

using bitrift::testing::bytes_of;
using bitrift::testing::Scratch;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path lenet =
    std::filesystem::path(bitrift::testing::source_dir) / "data/lenet/lenet.h5";

TEST(LeftOut, PiecesAreNamedByWhatTheyAre) {
  const auto pieces = state_pieces(ckpt::Reader(lenet));
  std::vector<std::string> names;
  for (const auto& [name, tensors] : pieces) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("optimizer/momentum_buffer", "parameters", "progress/cursor",
                                 "progress/epoch", "progress/learning_rate", "progress/step", "rng/seed"));
  EXPECT_THAT(pieces.at("progress/cursor"),
              ElementsAre("progress/cursor", "progress/epoch_correct", "progress/epoch_loss_sum"));
  EXPECT_EQ(pieces.at("parameters").size(), 10);
}

TEST(LeftOut, OnlyTheTensorsOfThePieceChange) {
  const Scratch scratch;
  // A checkpoint that is its own beginning: another seed is all that can be different.
  EXPECT_EQ(leave_out(state_pieces(ckpt::Reader(lenet)).at("parameters"), lenet, lenet, scratch / "a.h5"), 0);
  EXPECT_EQ(bytes_of(scratch / "a.h5"), bytes_of(lenet));
  EXPECT_EQ(leave_out({"rng/seed", "progress/step"}, lenet, lenet, scratch / "a.h5"), 1);
  const std::string before = bytes_of(lenet), after = bytes_of(scratch / "a.h5");
  ASSERT_EQ(before.size(), after.size());
  const std::uint64_t seed = ckpt::Reader(lenet).find("rng/seed")->offset.value();
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(after[i], i == seed ? static_cast<char>(before[i] ^ 1) : before[i]) << i;
  EXPECT_ERROR(leave_out({"none"}, lenet, lenet, scratch / "a.h5"), bad_file, "none is not stored");
}

StateResult compared(const Losses& golden, const Losses& found) {
  StateResult result;
  compare_losses(golden, found, result);
  return result;
}

TEST(LeftOut, LossesAreComparedStepByStep) {
  const Losses golden{{"0x1p+1", "0x1p+2", "0x1p+3"}, {"2.5"}};
  EXPECT_EQ(compared(golden, golden), (StateResult{.piece = "", .steps = 3}));
  EXPECT_EQ(compared(golden, {{"0x1p+1", "0x1.8p+2", "0x1p+2"}, {"2.5"}}),
            (StateResult{.piece = "", .steps = 3, .first_step = 2, .largest = 4.0}));
  EXPECT_EQ(compared(golden, {{"0x1p+1", "0x1p+2", "nan"}, {"2.25"}}),
            (StateResult{.piece = "", .steps = 3, .first_step = 3, .first_evaluation = 1}));
  EXPECT_EQ(compared(golden, {{"0x1p+1", "0x1p+2"}, {"2.5", "2.5"}}),
            (StateResult{.piece = "", .steps = 2, .first_step = 3, .largest = 0.0, .first_evaluation = 2}));
}

TEST(LeftOut, TheTableHasALineForEachPiece) {
  const auto row = [](StateResult result) {
    return StudyRow{state_kind.format, state_kind.writer, std::move(result)};
  };
  const std::vector<StudyRow> rows = {row({.piece = "rng/seed", .tensors = 1, .steps = 5, .first_step = 1}),
                                      row({.piece = nothing_left_out, .steps = 5}),
                                      row({.piece = "a", .tensors = 2, .refused = "no such thing"})};
  const auto states = summarize_states(rows);
  ASSERT_EQ(states.size(), 2);
  EXPECT_EQ(states_json(states)[0],
            (record::Json{
                {"piece", "a"}, {"tensors", 2}, {"changed", 0}, {"steps", 0}, {"refused", "no such thing"}}));
  EXPECT_THAT(states_table(states), HasSubstr("refused: no such thing"));
  EXPECT_THAT(states_table(states), HasSubstr("not a number"));
  EXPECT_EQ(states_table({}), "");
}

}  // namespace
}  // namespace bitrift::study
