#include "core/text/nearest_word.h"

#include <gtest/gtest.h>

namespace bitrift::nearest_word_test {
namespace {

TEST(NearestWord, TakesFewEdits) {
  EXPECT_EQ(nearest_word("analize", {"ls", "analyze", "compare"}), "analyze");
  EXPECT_EQ(nearest_word("Analyse", {"ls", "analyze"}), "analyze");
  EXPECT_EQ(nearest_word("inject", {"undo", "inject"}), "inject");
  EXPECT_EQ(nearest_word("tabel", {"label", "table"}), "label");
  EXPECT_EQ(nearest_word("tabel", {"plan", "table"}), "table");
  EXPECT_EQ(nearest_word("shw", {"show", "shard"}), "show");
}

TEST(NearestWord, DoesNotGuessWildly) {
  EXPECT_EQ(nearest_word("xy", {"ls", "undo"}), "");
  EXPECT_EQ(nearest_word("train", {"ls", "undo", "diff"}), "");
  EXPECT_EQ(nearest_word("", {"ls"}), "");
  EXPECT_EQ(nearest_word("word", {}), "");
}

}  // namespace
}  // namespace bitrift::nearest_word_test
