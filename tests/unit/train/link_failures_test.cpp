#include "train/fault/link_failures.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace bitrift::train::link_failures_test {
namespace {

using record::FailedLink;
using record::LinkFailure;
using ::testing::ElementsAre;

const FailedLink dead{LinkFailure::dead, {0, 0}, {0, 1}, 3, 0};
const FailedLink slow{LinkFailure::slow, {0, 1}, {1, 1}, 5, 0.001};

TEST(LinkFailures, BeginWithTheirStepAndLast) {
  LinkFailures failures;
  EXPECT_FALSE(failures.any());
  failures.arm({dead, slow});
  EXPECT_TRUE(failures.any());
  EXPECT_TRUE(failures.failed().empty());
  failures.at_step(2);
  EXPECT_TRUE(failures.failed().empty());
  failures.at_step(3);
  EXPECT_THAT(failures.failed(), ElementsAre(dead));
  failures.at_step(9);
  EXPECT_THAT(failures.failed(), ElementsAre(dead, slow));
  failures.arm({slow});
  EXPECT_TRUE(failures.failed().empty());
}

TEST(LinkFailures, AreMissingWhereAResultSaysNothingOfThem) {
  LinkFailures failures;
  failures.arm({dead, slow});
  record::RunResult result;
  result.failed_links = {{.link = slow}};
  EXPECT_THAT(failures.missing(result), ElementsAre(dead));
}

TEST(LinkFailures, CountLateMessagesByLink) {
  LinkFailures failures;
  failures.arm({dead, slow});
  for (int i = 0; i < 3; ++i) failures.count(slow);
  record::RunResult result;
  result.failed_links = {{.link = slow}, {.link = dead}};
  failures.gather(mpi::Communicator(), result);
  EXPECT_EQ(result.failed_links[0].delayed, 3);
  EXPECT_EQ(result.failed_links[1].delayed, 0);
}

TEST(LinkFailures, OfAnEarlierRunAreNoLongerCounted) {
  LinkFailures failures;
  failures.arm({slow});
  failures.arm({});
  EXPECT_THROW(failures.count(slow), Error);
}

TEST(LinkFailures, CompareMediansOfStepsBeforeAndBehind) {
  LinkFailures failures;
  failures.took(7);  // nothing is armed
  failures.arm({dead});
  std::int64_t step = 0;
  for (const double seconds : {9.0, 1.0, 4.0, 2.0, 8.0}) {
    failures.at_step(++step);
    failures.took(seconds);
  }
  record::RunResult result;
  result.failed_links = {{.link = dead}, {.link = FailedLink{LinkFailure::dead, {0, 0}, {1, 0}, 1, 0}}};
  failures.note_times(result);
  EXPECT_EQ(result.failed_links[0].step_seconds_before, 5);
  EXPECT_EQ(result.failed_links[0].step_seconds_behind, 4);
  EXPECT_EQ(result.failed_links[1].step_seconds_before, std::nullopt);
  EXPECT_EQ(result.failed_links[1].step_seconds_behind, 4);
}

}  // namespace
}  // namespace bitrift::train::link_failures_test
