#include "campaign/worker/trace_run.h"

#include <gmock/gmock.h>

#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::trace_run_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;
using testing::TemporaryFolder;

class TraceTest : public ::testing::Test {
 protected:
  TraceTest() {
    row_ = testing::result("serial/weight.sign/0");
    row_.steps = 2;
    header_ = {{"schema", "bitrift/trace/1"}, {"spec", {{"name", "x"}}}, {"digest", "start"}};
    lines_ = {{{"step", 1}, {"digest", "c"}},
              {{"step", 2}, {"digest", "d"}},
              {{"evaluation", record::to_json(row_.replicas[0][0])}}};
  }
  [[nodiscard]] std::optional<std::string> difference() const {
    std::string text = header_.dump() + "\n";
    for (const record::Json& line : lines_) text += line.dump() + "\n";
    replace_text(trace_, text);
    return trace_difference(trace_, row_);
  }
  TemporaryFolder folder_;
  std::filesystem::path trace_ = folder_ / "trace.jsonl";
  record::RunResult row_;
  record::Json header_;
  std::vector<record::Json> lines_;
};

TEST_F(TraceTest, SameStepsEvaluationsAndDigestAreTheSameRun) { EXPECT_EQ(difference(), std::nullopt); }

TEST_F(TraceTest, AnotherNumberOfStepsOrEvaluationsIsTold) {
  row_.steps = 3;
  EXPECT_THAT(difference(), Optional(HasSubstr("2 steps, the row 3")));
  row_.steps = 2;
  lines_.pop_back();
  EXPECT_THAT(difference(), Optional(HasSubstr("0 evaluations, the row 1")));
}

TEST_F(TraceTest, AMetricThatDiffersInItsLastBitIsTold) {
  row_.replicas[0][0].test_loss = std::nextafter(row_.replicas[0][0].test_loss.value(), 1);
  EXPECT_THAT(difference(), Optional(HasSubstr("evaluation 1 is")));
}

TEST_F(TraceTest, FinalDigestCountsWhereTheLastStepIsTheEnd) {
  row_.final_digest = "e";
  EXPECT_THAT(difference(), Optional(HasSubstr("final digest")));
  row_.status = record::RunStatus::nonfinite;
  EXPECT_EQ(difference(), std::nullopt);
  row_.status = record::RunStatus::done;
  header_["spec"]["schedule"]["name"] = "plateau";
  EXPECT_EQ(difference(), std::nullopt);
}

TEST_F(TraceTest, OfNoStepsTheHeadersDigestIsTheEnd) {
  lines_.erase(lines_.begin(), lines_.begin() + 2);
  row_.steps = 0;
  EXPECT_THAT(difference(), Optional(HasSubstr("\"start\" in the trace")));
  row_.final_digest = "start";
  EXPECT_EQ(difference(), std::nullopt);
}

TEST(CheckTraceable, RunInADataOrderThatNoCheckpointHoldsIsRefused) {
  design::CampaignSpec spec = testing::small_spec();
  record::TrialSpec run;
  run.id = {"serial", "weight.sign", 3};
  check_traceable(spec, run);
  spec.orders = 2;
  run.order = 1;
  run.order_seed = 77;
  EXPECT_THAT(tests::error_of([&] { check_traceable(spec, run); }),
              ::testing::AllOf(HasSubstr("serial/weight.sign/3 runs in the data order of seed 77"),
                               HasSubstr("whose draw is a multiple of 2")));
}

TEST_F(TraceTest, FilesThatAreNoTraceAreRefused) {
  for (const char* text : {"", "{}\n", "rubbish\n", "[1]\n"}) {
    replace_text(trace_, text);
    EXPECT_THAT(tests::error_of([&] { static_cast<void>(trace_difference(trace_, row_)); }),
                HasSubstr("trace.jsonl: not a trace"))
        << text;
  }
}

}  // namespace
}  // namespace bitrift::campaign::trace_run_test
