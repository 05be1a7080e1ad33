#include "design/kind/run/wire_strata.h"

#include <set>
#include <string>
#include <tuple>

#include <gmock/gmock.h>

#include "core/error.h"

namespace bitrift::design::wire_test {
namespace {

using record::LinkFault;
using record::MessageKind;
using ::testing::HasSubstr;

constexpr std::int64_t epochs = 2;

// Chunks of bucket 0 have 3, 3, 2 and 2 elements, those of bucket 1 have 1, 1, 1 and none.
WireStrata strata() {
  WireStrata wire;
  wire.fields = {"sign", "exponent", "mantissa"};
  wire.messages = {
      3, "float32", 4, {10, 3}, {{0, MessageKind::add}, {2, MessageKind::copy}, {3, MessageKind::copy}}};
  return wire;
}

TEST(MessagePopulation, HoldsEveryBitOfEveryMessageOnce) {
  const WireStrata wire = strata();
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, int>;
  std::set<Key> found;
  for (const MessageKind kind : wire.kinds) {
    for (const std::string& field : wire.fields) {
      const MessagePopulation population(kind, field, wire, epochs);
      for (std::uint64_t i = 0; i < population.size(); ++i) {
        const LinkFault fault = population.at(i);
        EXPECT_TRUE(found.insert({fault.step, fault.bucket, fault.send, fault.element, fault.bit}).second);
        EXPECT_EQ(wire.messages->sends[static_cast<std::size_t>(fault.send)].kind, kind);
      }
    }
  }
  std::set<Key> expected;
  for (std::int64_t step = 1; step <= 6; ++step) {
    for (int bit = 0; bit < 32; ++bit) {
      const std::int64_t elements[2][3] = {{3, 2, 2}, {1, 1, 0}};
      for (std::int64_t bucket = 0; bucket < 2; ++bucket) {
        for (std::int64_t send = 0; send < 3; ++send) {
          for (std::int64_t element = 0; element < elements[bucket][send]; ++element)
            expected.insert({step, bucket, send, element, bit});
        }
      }
    }
  }
  EXPECT_EQ(found, expected);
}

TEST(MessagePopulation, IsOfTheStepsThatAreNamed) {
  WireStrata wire = strata();
  wire.steps = StepRange{2, 3};
  const MessagePopulation population(MessageKind::add, "sign", wire, epochs);
  ASSERT_EQ(population.size(), 2U * 4U);
  std::set<std::int64_t> steps;
  for (std::uint64_t i = 0; i < population.size(); ++i) steps.insert(population.at(i).step);
  EXPECT_EQ(steps, (std::set<std::int64_t>{2, 3}));
  EXPECT_THROW((void)population.at(population.size()), Error);
}

std::string refusal(MessageKind kind, const std::string& field, const WireStrata& wire) {
  try {
    MessagePopulation(kind, field, wire, epochs);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "";
}

TEST(MessagePopulation, RefusesWhatIsNotSent) {
  WireStrata wire = strata();
  EXPECT_THAT(refusal(MessageKind::add, "40-41", wire), HasSubstr("messages carry float32"));
  wire.steps = StepRange{1, 7};
  EXPECT_THAT(refusal(MessageKind::add, "sign", wire), HasSubstr("names step 7, but a run takes 6 steps"));
  wire = strata();
  wire.messages->sends.erase(wire.messages->sends.begin());
  EXPECT_THAT(refusal(MessageKind::add, "sign", wire), HasSubstr("no such message is sent"));
  wire.messages.reset();
  EXPECT_THAT(refusal(MessageKind::add, "sign", wire), HasSubstr("not known before the campaign has begun"));
}

TEST(WireCanaries, FlipTheExponentsTopBitOfAnAddedNumberInTheRunAndAfterIt) {
  const record::Parallel parallel;
  const std::vector<ckpt::Reader> no_bases;
  const WireStrata wire = strata();
  std::vector<record::Faults> faults;
  for (const Canary& canary : wire.canaries({})) {
    record::TrialSpec run;
    wire.plant(canary.stratum, {no_bases, parallel, epochs}, {}, run);
    EXPECT_EQ(canary.lands, canary.required == Required::altered);
    faults.push_back(run.faults);
  }
  EXPECT_EQ(faults, (std::vector<record::Faults>{std::vector{LinkFault{7, 0, 0, 0, 30}},
                                                 std::vector{LinkFault{3, 0, 0, 0, 30}}}));
}

}  // namespace
}  // namespace bitrift::design::wire_test
