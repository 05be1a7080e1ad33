#include "record/fault/failed_link.h"

#include <limits>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "core/error.h"
#include "record/fault/faults.h"
#include "record/trial.h"

namespace bitrift::record::failed_link_test {
namespace {

using ::testing::HasSubstr;

const FailedLink dead{LinkFailure::dead, {0, 1}, {0, 2}, 5, 0};
const FailedLink slow{LinkFailure::slow, {0, 0}, {63, 0}, std::numeric_limits<std::int64_t>::max(), 0.002};

TEST(FailedLink, OfATextHasEveryPartOfIt) {
  EXPECT_EQ(failed_link_from_text(LinkFailure::dead, "0,1-0,2@5"), dead);
  EXPECT_EQ(failed_link_from_text(LinkFailure::slow, "3,7-2,7@1:1e-4"),
            (FailedLink{LinkFailure::slow, {2, 7}, {3, 7}, 1, 1e-4}));
  EXPECT_EQ(to_text(dead), "0,1-0,2@5");
}

TEST(FailedLink, IsTheSameInBothDirections) {
  EXPECT_EQ(failed_link_from_text(LinkFailure::dead, "0,2-0,1@5"), dead);
  Json value = to_json(dead);
  value["between"] = "0,2-0,1";
  EXPECT_EQ(failed_link_from_json(value), dead);
}

TEST(FailedLink, SurvivesTextAndJson) {
  for (const double delay : {0.002, 1.0 / 3, 1e-9, 10.0}) {
    FailedLink link = failed_link_from_text(LinkFailure::slow, to_text(slow));
    link.delay = delay;
    EXPECT_EQ(failed_link_from_text(LinkFailure::slow, to_text(link)), link);
    EXPECT_EQ(failed_link_from_json(Json::parse(to_json(link).dump())), link);
  }
  EXPECT_EQ(failed_link_from_json(Json::parse(to_json(dead).dump())), dead);
  EXPECT_EQ(to_json(dead), (Json{{"kind", "dead"}, {"between", "0,1-0,2"}, {"step", 5}}));
}

class HostileLink : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(HostileLink, IsRefusedWithWhatWasExpected) {
  const auto& [text, says] = GetParam();
  try {
    (void)failed_link_from_text(LinkFailure::slow, text);
    FAIL() << "accepted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_THAT(error.what(), HasSubstr(says));
    EXPECT_THAT(error.what(), HasSubstr("expected ROW,COLUMN-ROW,COLUMN@STEP:SECONDS"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostileLink,
                         ::testing::Values(std::pair("", "no ',' after the row"),
                                           std::pair("0,1", "no '-' after the column"),
                                           std::pair("0,1-0,2", "no '@' after the column"),
                                           std::pair("0,1-0,2@5", "no ':' after the step"),
                                           std::pair("0,1-0,2@5:", "'' is not a valid delay"),
                                           std::pair("0,1-0,2@0:1", "steps count from 1"),
                                           std::pair("0,1-0,1@5:1", "names one chip twice"),
                                           std::pair("-1,0-0,0@1:1", "'-1' is not a valid row"),
                                           std::pair("0,+1-0,2@5:1", "'+1' is not a valid column"),
                                           std::pair("0,1-0, 2@5:1", "' 2' is not a valid column"),
                                           std::pair("0,1-99999999999,2@5:1", "is not a valid row"),
                                           std::pair("0,1-0,2@5:nan", "a delay of nan"),
                                           std::pair("0,1-0,2@5:inf", "a delay of inf"),
                                           std::pair("0,1-0,2@5:-1", "'-1' is not a valid delay"),
                                           std::pair("0,1-0,2@5:0", "a delay of 0"),
                                           std::pair("0,1-0,2@5:10.5", "more than 0 and at most 10"),
                                           std::pair("0,1-0,2@5:2ms", "'2ms' is not a valid delay"),
                                           std::pair("0,1-0,2@1.5:1", "'1.5' is not a valid step")));

TEST(FailedLink, OfImpossibleJsonIsRefused) {
  for (const auto& [key, bad] : {std::pair<const char*, Json>{"step", 0},
                                 {"delay", 0},
                                 {"delay", 11},
                                 {"between", "0,1"},
                                 {"between", "0,1-0,1"},
                                 {"between", "0,1-0,2@4"}}) {
    Json value = to_json(slow);
    value[key] = bad;
    EXPECT_THROW((void)failed_link_from_json(value), Error) << key << bad;
  }
}

TEST(Faults, OfFailedLinksAreAKindOfTheirOwn) {
  const Faults faults(std::vector<FailedLink>{dead, slow});
  EXPECT_TRUE(faults.of_failed_links());
  EXPECT_FALSE(faults.of_links() || faults.of_processes());
  EXPECT_EQ(faults.size(), 2U);
  const Json value = faults;
  EXPECT_EQ(value.at(0), (Json{{"failed_link", to_json(dead)}}));
  EXPECT_EQ(value.get<Faults>(), faults);
  Json mixed = value;
  mixed.push_back({{"link", to_json(LinkFault{})}});
  EXPECT_THROW((void)mixed.get<Faults>(), Error);
}

TEST(LinkReport, KeepsTimesApartFromWhatRepeats) {
  TrialRecord record;
  record.faults = std::vector<FailedLink>{dead};
  record.result.emplace();
  record.result->failed_links = {{dead, 0, 0.25, 0.5, {}}, {slow, 42, {}, {}, 0.75}};
  const Json row = to_json(record);
  EXPECT_EQ(stable_json(record)["result"]["failed_links"],
            (Json{{{"link", to_json(dead)}}, {{"link", to_json(slow)}, {"delayed_messages", 42}}}));
  EXPECT_EQ(row["volatile"]["failed_links"],
            (Json{{{"plan_seconds", 0.25}, {"step_seconds_before", 0.5}}, {{"step_seconds_behind", 0.75}}}));
  EXPECT_EQ(to_json(trial_record_from_json(Json::parse(row.dump()))), row);
}

}  // namespace
}  // namespace bitrift::record::failed_link_test
