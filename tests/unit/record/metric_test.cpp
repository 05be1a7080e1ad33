#include "record/metric.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace bitrift::record {
namespace {

using ::testing::ElementsAre;

const Metric kPerplexity = CustomMetric{"perplexity", Better::lower};
const Metric kBleu = CustomMetric{"bleu", Better::higher};

TEST(Metric, TextsNameStandardAndCustomOnes) {
  EXPECT_EQ(metric_from_text("test_loss"), Metric(Metric::test_loss));
  EXPECT_EQ(metric_from_text("perplexity=lower"), kPerplexity);
  EXPECT_EQ(metric_from_text("bleu=higher"), kBleu);
  for (const char* wrong : {"perplexity", "perplexity=", "perplexity=best", "=lower", "test_loss=higher", ""})
    EXPECT_THROW((void)metric_from_text(wrong), Error) << wrong;
}

TEST(Metric, JsonKeepsTheDirection) {
  EXPECT_EQ(Json(std::vector{Metric(Metric::test_loss), kBleu}).dump(), R"(["test_loss",{"bleu":"higher"}])");
  EXPECT_EQ(Json::parse(R"({"bleu":"higher"})").get<Metric>(), kBleu);
  for (const char* wrong : {R"("bleu")", R"({"bleu":"up"})", R"({"test_loss":"lower"})"})
    EXPECT_THROW((void)Json::parse(wrong).get<Metric>(), Error) << wrong;
}

TEST(Metric, EvaluationsKeepCustomValuesByDirection) {
  Evaluation evaluation;
  evaluation.train_loss = 1;
  kPerplexity.set(evaluation, 12.5);
  kBleu.set(evaluation, 0.25);
  EXPECT_THAT(metrics_in(evaluation), ElementsAre(Metric(Metric::train_loss), kBleu, kPerplexity));
  const Json stored = Json(evaluation);
  EXPECT_EQ(stored.at("lower_is_better").dump(), R"({"perplexity":12.5})");
  EXPECT_FALSE(stored.contains("test_loss"));
  EXPECT_EQ(kBleu.value_in(stored.get<Evaluation>()), 0.25);
}

TEST(Metric, ADirectionThatContradictsTheProgramIsRefused) {
  Evaluation evaluation;
  kBleu.set(evaluation, 0.25);
  EXPECT_THROW((void)Metric(CustomMetric{"bleu", Better::lower}).value_in(evaluation), Error);
}

TEST(Metric, ChangesArePrintedInTheUnitOfTheMetric) {
  EXPECT_EQ(change_text(Metric::test_accuracy, 0.0083), "0.83 points");
  EXPECT_EQ(change_text(Metric::test_loss, 0.076), "7.6 %");
  EXPECT_EQ(change_text(kPerplexity, 0.3125), "0.312");
  EXPECT_STREQ(harm_word(kPerplexity), "rise");
  EXPECT_STREQ(harm_word(kBleu), "fall");
}

}  // namespace
}  // namespace bitrift::record
