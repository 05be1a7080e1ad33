#include "comm/mesh_schedule_json.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/plan/planner.h"
#include "comm/verify.h"
#include "tests_support.h"

namespace bitrift::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tests::error_of;

// A plan for two chips, with parts to replace.
std::string plan(const std::string& sends,
                 const std::string& head = R"("schema":1,"scheme":"other","chunks":1)") {
  return "{" + head +
         R"(,"topology":{"rows":1,"columns":2,"wrap":"neither","dead":[],"dead_links":[]},"sends":)" + sends +
         "}";
}

std::string refusal(const std::string& text) {
  return error_of([&] { (void)schedule_from_text(text, "p.json"); });
}

TEST(ScheduleJson, IsTheSameAfterItWasWrittenAndRead) {
  const Topology mesh = topology_from_text({"4x4", "both", {"1,1,2x2"}, {"0,0-0,3"}});
  for (const Scheme scheme : {Scheme::ring, Scheme::forwarding}) {
    const Schedule schedule = plan_schedule(mesh, scheme);
    ASSERT_GT(schedule.size(), 90U);
    EXPECT_TRUE(schedule_from_text(schedule_text(schedule), "p.json") == schedule);
  }
}

TEST(ScheduleJson, WritesOneSendALine) {
  Schedule schedule(topology_from_text({"1x2", "neither", {}, {}}), Scheme::other, 2);
  schedule.append({0, 1, 1, SendKind::add}, {});
  schedule.append({1, 0, 1, SendKind::copy}, {0});
  EXPECT_THAT(schedule_text(schedule), HasSubstr("\n[0,1,1,\"add\",[]],\n[1,0,1,\"copy\",[0]]\n]\n}\n"));
}

TEST(ScheduleJson, TakesAPlanByHand) {
  const Schedule schedule = schedule_from_text(plan(R"([[0,1,0,"add",[]],[1,0,0,"copy",[0]]])"), "p.json");
  ASSERT_EQ(schedule.size(), 2U);
  EXPECT_EQ(schedule.send(1), (Send{1, 0, 0, SendKind::copy}));
  EXPECT_EQ(schedule.after(1).front(), 0U);
  EXPECT_EQ(schedule_from_text(plan("[]"), "p.json").size(), 0U);
}

TEST(ScheduleJson, RefusesSendsOfAnotherForm) {
  for (const char* send : {"[0,1,0,\"add\"]",
                           "[0,1,0,\"add\",[],1]",
                           "[0,1,\"add\",[]]",
                           "[0,1,0,\"mul\",[]]",
                           "[0,1,0,1,[]]",
                           "[0,1,0,\"add\",[[]]]",
                           "[0,1,0,\"add\",[-1]]",
                           "[0,1,0,\"add\",[0.5]]",
                           "[0,-1,0,\"add\",[]]",
                           "[0,1.0,0,\"add\",[]]",
                           "[0,1,0,\"add\",[null]]",
                           "[0,1,0,\"add\",{}]",
                           "[]",
                           "7",
                           "\"add\"",
                           "{}",
                           "[0,1,0,\"add\",[\"add\"]]",
                           "[0,1,0,\"add\",[],[]]",
                           "[0,1,0,[],\"add\"]",
                           "true",
                           "[0,1,0,\"add\",[4294967296]]"}) {
    EXPECT_THAT(refusal(plan("[" + std::string(send) + "]")), HasSubstr("p.json: send 0 ")) << send;
  }
}

TEST(ScheduleJson, RefusesNumbersOutOfRange) {
  EXPECT_THAT(refusal(plan(R"([[0,2,0,"add",[]]])")), HasSubstr("p.json: send 0 (chip 0 to chip 2"));
  EXPECT_THAT(refusal(plan(R"([[65536,1,0,"add",[]]])")), HasSubstr("chip 65536 does not exist"));
  EXPECT_THAT(refusal(plan(R"([[0,0,0,"add",[]]])")), HasSubstr("two different chips"));
  EXPECT_THAT(refusal(plan(R"([[0,1,1,"add",[]]])")), HasSubstr("expected a chunk from 0 to 0"));
  EXPECT_THAT(refusal(plan(R"([[0,1,0,"add",[1]]])")), HasSubstr("waits for send 1; there are 1"));
  EXPECT_THAT(refusal(plan("[]", R"("schema":1,"scheme":"ring","chunks":0)")), HasSubstr("0 chunks"));
  EXPECT_THAT(refusal(plan("[]", R"("schema":1,"scheme":"ring","chunks":1048577)")),
              HasSubstr("1048577 chunks"));
}

TEST(ScheduleJson, RefusesFilesThatAreNoSchedule) {
  EXPECT_THAT(refusal(""), HasSubstr("p.json: not valid JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(refusal("3"), HasSubstr("expected an object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("'schema' is missing"));
  EXPECT_THAT(refusal(plan("[]").substr(0, 90)), HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(refusal(plan("[]") + "x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(plan("[]", R"("schema":2,"scheme":"ring","chunks":1)")), HasSubstr("has schema 2"));
  EXPECT_THAT(refusal(plan("[]", R"("schema":1,"scheme":"tree","chunks":1)")),
              HasSubstr("'scheme' is none of"));
  EXPECT_THAT(refusal(plan("[]", R"("schema":1,"scheme":"ring","chunks":1,"x":0)")), HasSubstr("not known"));
  EXPECT_THAT(refusal(plan("[]", R"("schema":1,"scheme":"ring","chunks":1,"chunks":1)")),
              HasSubstr("a key twice"));
  EXPECT_THAT(refusal(plan(R"([],"sends":[])")), HasSubstr("a key twice"));
  EXPECT_THAT(refusal(plan("null")), HasSubstr("'sends' is missing or not an array"));
  EXPECT_THAT(refusal(plan("{}")), HasSubstr("'sends' is missing or not an array"));
  EXPECT_THAT(refusal(plan("[]", R"("schema":1,"scheme":"ring","chunks":-1)")), HasSubstr("'chunks' is not"));
  EXPECT_THAT(refusal(std::string(100'000, '[')), HasSubstr("nested too deep"));
  EXPECT_THAT(refusal(R"({"topology":{"dead":[)" + std::string(100'000, '0').replace(0, 1, "0")),
              HasSubstr("p.json"));
}

TEST(ScheduleJson, RefusesAMeshThatIsNotConnected) {
  std::string text = plan("[]");
  text.replace(text.find("\"dead_links\":[]"), 15, "\"dead_links\":[[0,1]]");
  EXPECT_THAT(refusal(text),
              AllOf(HasSubstr("p.json: chip 1 (row 0, column 1) cannot be reached"), Not(HasSubstr("\n"))));
}

TEST(ScheduleJson, RefusesAHugeHeader) {
  std::string many = "[0";
  for (int i = 0; i < 200'000; ++i) many += ",0";
  std::string text = plan("[]");
  text.replace(text.find("\"dead\":[]") + 7, 2, many + "]");
  EXPECT_THAT(refusal(text), HasSubstr("too many values outside its sends"));
}

TEST(ScheduleJson, DamagedTextsAreRefusedOrJudged) {
  const std::string whole =
      schedule_text(plan_schedule(topology_from_text({"2x3", "rows", {"0,0"}, {}}), Scheme::forwarding));
  constexpr std::string_view bytes = "0123456789-.,:[]{}\"adecop \\\0\xff\n";
  std::mt19937_64 random(6);
  int accepted = 0, wrong = 0, refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = whole;
    for (std::uint64_t k = 1 + random() % 3; k > 0; --k) {
      const auto place = random() % text.size();
      if (random() % 4 == 0) {
        text.erase(place, 1 + random() % 8);
      } else {
        text[place] = bytes[random() % (random() % 2 == 0 ? 10 : bytes.size())];
      }
    }
    try {
      const Verdict verdict = verify(schedule_from_text(text, "p.json"));
      ++(verdict.counter_example ? wrong : accepted);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::internal) << error.what() << "\n" << text;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(accepted, 10);
  EXPECT_GT(wrong, 10);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace bitrift::comm
