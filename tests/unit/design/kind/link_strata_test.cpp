#include "design/kind/run/link_strata.h"

#include <set>
#include <string>

#include <gmock/gmock.h>

#include "core/error.h"

namespace bitrift::design::link_test {
namespace {

using record::FailedLink;
using record::LinkFailure;
using ::testing::HasSubstr;

constexpr std::int64_t epochs = 2;

// Five chips alive, and five links between them.
const record::MeshSpec mesh{comm::topology_from_text({"2x3", "neither", {"0,0"}, {}})};

LinkStrata strata() {
  LinkStrata link;
  link.delay = 0.25;
  link.steps_per_epoch = 3;
  return link;
}

TEST(LinkPopulation, HoldsEveryLiveLinkInEveryStepOnce) {
  for (const LinkFailure kind : {LinkFailure::dead, LinkFailure::slow}) {
    const LinkPopulation population(kind, strata(), mesh, epochs);
    std::set<std::string> found, expected;
    for (std::uint64_t i = 0; i < population.size(); ++i) {
      const FailedLink link = population.at(i);
      EXPECT_EQ(link.kind, kind);
      found.insert(to_text(link));
    }
    for (const char* const link : {"0,1-0,2", "0,1-1,1", "0,2-1,2", "1,0-1,1", "1,1-1,2"}) {
      for (int step = 1; step <= 6; ++step)
        expected.insert(fmt::format("{}@{}{}", link, step, kind == LinkFailure::slow ? ":0.25" : ""));
    }
    EXPECT_EQ(population.size(), 30U);
    EXPECT_EQ(found, expected);
    EXPECT_THROW((void)population.at(30), Error);
  }
}

TEST(LinkPopulation, IsOfTheStepsThatAreNamed) {
  LinkStrata link = strata();
  link.steps = StepRange{2, 3};
  const LinkPopulation population(LinkFailure::dead, link, mesh, epochs);
  ASSERT_EQ(population.size(), 10U);
  std::set<std::int64_t> steps;
  for (std::uint64_t i = 0; i < population.size(); ++i) steps.insert(population.at(i).step);
  EXPECT_EQ(steps, (std::set<std::int64_t>{2, 3}));
}

std::string refusal(const LinkStrata& link, const record::MeshSpec& of) {
  try {
    LinkPopulation(LinkFailure::dead, link, of, epochs);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "";
}

TEST(LinkPopulation, RefusesWhatCannotFail) {
  LinkStrata link = strata();
  link.steps = StepRange{1, 7};
  EXPECT_THAT(refusal(link, mesh), HasSubstr("names step 7, but a run takes 6 steps"));
  EXPECT_THAT(refusal(strata(), record::MeshSpec()), HasSubstr("no live link"));
  link.steps_per_epoch.reset();
  EXPECT_THAT(refusal(link, mesh), HasSubstr("not known before the campaign has begun"));
}

TEST(LinkCanaries, AreSlowInTheMiddleOfTheRunOrAfterIt) {
  record::Parallel parallel;
  parallel.mesh = mesh;
  const std::vector<ckpt::Reader> no_bases;
  std::vector<std::string> links;
  for (const Canary& canary : strata().canaries({})) {
    record::TrialSpec run;
    strata().plant(canary.stratum, {no_bases, parallel, epochs}, {}, run);
    EXPECT_EQ(canary.required, Required::bitwise);
    links.push_back((canary.lands ? "lands " : "unreached ") + to_text(run.faults.failed_links().front()));
  }
  EXPECT_EQ(links, (std::vector<std::string>{"unreached 0,1-0,2@7:0.25", "lands 0,1-0,2@3:0.25"}));
}

}  // namespace
}  // namespace bitrift::design::link_test
