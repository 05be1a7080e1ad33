// Campaigns whose links alter messages: their canaries, and how a trial is shown.
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "analyze/verdict/canaries.h"
#include "analyze/views/trials_view.h"
#include "design/kind/run/link_strata.h"
#include "design/kind/run/wire_strata.h"
#include "unit/analyze/rows.h"

namespace bitrift::analyze::link_test {
namespace {

using record::LinkFault;
using record::TrialKind;
using record::TrialRecord;
using testing::clean_arm;
using ::testing::ElementsAre;
using testing::evaluation;
using testing::finished;
using ::testing::IsEmpty;

using Rows = std::vector<TrialRecord>;

TrialRecord link_row(TrialKind kind, const std::string& stratum, const std::string& digest, bool landed) {
  TrialRecord row = finished(kind, "data", stratum, 0, {{evaluation(1, 0.1, 0.97, 0.2, 0.95)}}, digest);
  row.faults = std::vector<LinkFault>{{5, 0, 12, 3, 30}};
  row.landed = landed;
  return row;
}

std::vector<std::string> problems_after(const std::function<void(Rows&)>& change, bool links_alter = true) {
  Judging by;
  by.level = 0.05;
  if (links_alter) by.strata = design::WireStrata{};
  Rows rows = clean_arm("data");
  rows.push_back(link_row(TrialKind::canary, "canary:link-unreached", "golden", false));
  rows.push_back(link_row(TrialKind::canary, "canary:link-lands", "other", true));
  change(rows);
  return canary_problems(rows, controls_of(rows, by), by);
}

TEST(LinkCanaries, AreFineWhereOneLandsAndOneIsNotReached) {
  EXPECT_THAT(problems_after([](Rows&) {}), IsEmpty());
}

TEST(LinkCanaries, ShowWhatWentWrong) {
  const auto first = [](Rows& rows) -> TrialRecord& { return rows[rows.size() - 2]; };
  EXPECT_THAT(problems_after([&](Rows& rows) { first(rows).landed = true; }),
              ElementsAre("arm 'data': canary:link-unreached: a message was altered that was not to be"));
  EXPECT_THAT(problems_after([&](Rows& rows) { first(rows).result->final_digest = "other"; }),
              ElementsAre("arm 'data': canary:link-unreached: must be bitwise, is masked (within_noise)"));
  EXPECT_THAT(problems_after([](Rows& rows) { rows.back().landed = false; }),
              ElementsAre("arm 'data': canary:link-lands: the message that was to be altered was not"));
  EXPECT_THAT(problems_after([](Rows& rows) {
                rows.back() = link_row(TrialKind::canary, "canary:link-lands", "golden", true);
              }),
              ElementsAre("arm 'data': canary:link-lands: a huge gradient changed nothing"));
  EXPECT_THAT(problems_after([](Rows& rows) { rows.pop_back(); }),
              ElementsAre("arm 'data': canary:link-lands: missing"));
}

TEST(LinkCanaries, AreAskedForOnlyWhereLinksAlterMessages) {
  EXPECT_THAT(problems_after([](Rows& rows) { rows.resize(rows.size() - 2); }, false), IsEmpty());
}

TEST(LinkTrial, IsShownWithItsMessage) {
  const TrialRecord row = link_row(TrialKind::trial, "add.exponent", "other", true);
  EXPECT_EQ(record::described(row.faults, 3), "message 12@5:0.3.30");
}

std::vector<std::string> failure_problems_after(const std::function<void(Rows&)>& change) {
  Judging by;
  by.level = 0.05;
  by.strata = design::LinkStrata{};
  Rows rows = clean_arm("data");
  for (const bool reached : {false, true}) {
    rows.push_back(link_row(TrialKind::canary, reached ? "canary:slow-link" : "canary:failure-unreached",
                            "golden", reached));
    rows.back().faults =
        std::vector<record::FailedLink>{{record::LinkFailure::slow, {0, 0}, {0, 1}, 5, 0.25}};
  }
  change(rows);
  return canary_problems(rows, controls_of(rows, by), by);
}

TEST(FailedLinkCanaries, AreFineWhereOneIsSlowAndOneIsNotReached) {
  EXPECT_THAT(failure_problems_after([](Rows&) {}), IsEmpty());
}

TEST(FailedLinkCanaries, ShowWhatWentWrong) {
  EXPECT_THAT(failure_problems_after([](Rows& rows) { rows[rows.size() - 2].landed = true; }),
              ElementsAre("arm 'data': canary:failure-unreached: a link failed that was not to"));
  EXPECT_THAT(failure_problems_after([](Rows& rows) { rows.back().landed = false; }),
              ElementsAre("arm 'data': canary:slow-link: the link that was to be slow was not"));
  EXPECT_THAT(failure_problems_after([](Rows& rows) { rows.back().result->final_digest = "other"; }),
              ElementsAre("arm 'data': canary:slow-link: must be bitwise, is masked (within_noise)"));
  EXPECT_THAT(failure_problems_after([](Rows& rows) { rows.pop_back(); }),
              ElementsAre("arm 'data': canary:slow-link: missing"));
}

TEST(FailedLinkTrial, IsShownWithItsLink) {
  TrialRecord row = link_row(TrialKind::trial, "link.dead", "other", true);
  row.faults = std::vector<record::FailedLink>{{record::LinkFailure::dead, {0, 0}, {0, 1}, 5, 0}};
  EXPECT_EQ(record::described(row.faults, 3), "dead link 0,0-0,1@5");
}

}  // namespace
}  // namespace bitrift::analyze::link_test
