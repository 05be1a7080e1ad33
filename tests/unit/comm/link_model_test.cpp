#include "comm/model/link_model.h"

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "mesh_graph.h"

namespace bitrift::comm {
namespace {

using Waits = std::vector<SendId>;

constexpr LinkOrder kOrders[] = {LinkOrder::arrival, LinkOrder::priority, LinkOrder::listed};
const LinkCost kCost = {
    .bandwidth = 10, .latency = 3, .overhead = 0.5};  // 10 bytes: 1.5 s busy, there after 4.5 s

Graph line() { return mesh_graph({"###"}); }

TEST(LinkModel, OneSendTakesOverheadBytesAndLatency) {
  SendList sends;
  sends.add(0, 1, 10, {});
  for (const LinkOrder order : kOrders) {
    const LinkTimes times = simulate(line(), kCost, sends, order);
    EXPECT_DOUBLE_EQ(times.finish, 4.5);
    EXPECT_THAT(times.forward, testing::ElementsAre(1.5, 0));
    EXPECT_THAT(times.backward, testing::ElementsAre(0, 0));
  }
}

TEST(LinkModel, TheLatencyOccupiesNoLink) {
  SendList sends;
  for (int i = 0; i < 4; ++i) sends.add(0, 1, 10, {});
  for (const LinkOrder order : kOrders) {
    const LinkTimes times = simulate(line(), kCost, sends, order);
    EXPECT_DOUBLE_EQ(times.finish, 4 * 1.5 + 3);
    EXPECT_THAT(times.start, testing::ElementsAre(0, 1.5, 3, 4.5));
    EXPECT_DOUBLE_EQ(times.busiest(), 6);
  }
}

TEST(LinkModel, ADelayIsALatencyOfItsLink) {
  SendList sends;
  const SendId first = sends.add(0, 1, 10, {});
  sends.add(0, 1, 10, {});
  sends.add(1, 2, 10, Waits{first});
  const double delays[] = {7, 0};
  for (const LinkOrder order : kOrders) {
    const LinkTimes times = simulate(line(), kCost, sends, order, delays);
    EXPECT_THAT(times.start, testing::ElementsAre(0, 1.5, 4.5 + 7));
    EXPECT_DOUBLE_EQ(times.finish, 4.5 + 7 + 4.5);
    EXPECT_DOUBLE_EQ(times.busiest(), 3);
  }
  for (const std::vector<double>& wrong :
       {std::vector<double>{1}, {1, -1}, {std::numeric_limits<double>::infinity(), 0}})
    EXPECT_THROW((void)simulate(line(), kCost, sends, LinkOrder::arrival, wrong), Error);
}

TEST(LinkModel, DirectionsAndLinksDoNotDisturbEachOther) {
  SendList sends;
  sends.add(0, 1, 10, {});
  sends.add(1, 0, 10, {});
  sends.add(1, 2, 10, {});
  for (const LinkOrder order : kOrders) EXPECT_DOUBLE_EQ(simulate(line(), kCost, sends, order).finish, 4.5);
}

TEST(LinkModel, AForwardedMessageWaitsUntilItHasArrived) {
  SendList sends;
  const SendId first = sends.add(0, 1, 10, {});
  sends.add(1, 2, 20, Waits{first});
  for (const LinkOrder order : kOrders) {
    const LinkTimes times = simulate(line(), kCost, sends, order);
    EXPECT_THAT(times.start, testing::ElementsAre(0, 4.5));
    EXPECT_DOUBLE_EQ(times.finish, 4.5 + 2.5 + 3);
  }
}

TEST(LinkModel, AWaitForAnOwnSendEndsWhenItHasLeft) {
  SendList sends;
  const SendId first = sends.add(1, 0, 10, {});
  sends.add(1, 2, 10, Waits{first});
  for (const LinkOrder order : kOrders)
    EXPECT_THAT(simulate(line(), kCost, sends, order).start, testing::ElementsAre(0, 1.5));
}

// A link, three sends: the first in the list is ready last. Chip 1 gets what send 0 waits for after 4.5 s.
TEST(LinkModel, TheOrdersDiffer) {
  SendList sends;
  sends.add(1, 2, 10, Waits{3});
  for (int i = 0; i < 2; ++i) sends.add(1, 2, 40, {});  // 4.5 s each
  sends.add(0, 1, 10, {});
  EXPECT_THAT(simulate(line(), kCost, sends, LinkOrder::arrival).start, testing::ElementsAre(9, 0, 4.5, 0));
  EXPECT_THAT(simulate(line(), kCost, sends, LinkOrder::priority).start, testing::ElementsAre(4.5, 0, 6, 0));
  EXPECT_THAT(simulate(line(), kCost, sends, LinkOrder::listed).start, testing::ElementsAre(4.5, 6, 10.5, 0));
}

TEST(LinkModel, ParallelLinksCarryAMessageTogether) {
  SendList sends;
  sends.add(0, 1, 40, {});
  EXPECT_DOUBLE_EQ(simulate(Graph(2, {{1, 0, 4}}), kCost, sends, LinkOrder::arrival).finish, 4.5);
  EXPECT_THAT(simulate(Graph(2, {{1, 0, 4}}), kCost, sends, LinkOrder::arrival).backward,
              testing::ElementsAre(1.5));
}

TEST(LinkModel, NothingToSendTakesNoTime) {
  EXPECT_EQ(simulate(line(), kCost, {}, LinkOrder::priority).finish, 0);
}

std::string refusal(const SendList& sends, LinkOrder order, ErrorCode code, const LinkCost& cost = kCost) {
  try {
    (void)simulate(line(), cost, sends, order);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "accepted";
}

TEST(LinkModel, SendsThatWaitForEachOtherAreNamed) {
  SendList circle;
  circle.add(0, 1, 1, {});
  circle.add(0, 1, 1, Waits{2});
  circle.add(1, 0, 1, Waits{1});
  for (const LinkOrder order : kOrders)
    EXPECT_EQ(refusal(circle, order, ErrorCode::conflict),
              "send 1 from chip 0 to chip 1 waits for ever: sends wait for each other");
  SendList crossed;  // only the order of the list makes them wait
  crossed.add(0, 1, 1, Waits{2});
  crossed.add(0, 1, 1, {});
  crossed.add(1, 0, 1, Waits{1});
  EXPECT_EQ(refusal(crossed, LinkOrder::priority, ErrorCode::conflict), "accepted");
  EXPECT_THAT(refusal(crossed, LinkOrder::listed, ErrorCode::conflict),
              testing::HasSubstr("send 0 from chip 0"));
}

TEST(LinkModel, WhatIsNotPossibleIsRefused) {
  const auto one = [](int from, int to, double bytes, const Waits& waits) {
    SendList sends;
    sends.add(0, 1, 1, {});
    sends.add(from, to, bytes, waits);
    return refusal(sends, LinkOrder::arrival, ErrorCode::bad_input);
  };
  EXPECT_EQ(one(1, 2, 1, {0}), "accepted");
  EXPECT_EQ(one(0, 2, 1, {}), "send 1: no link from chip 0 to chip 2");
  EXPECT_EQ(one(3, 2, 1, {}), "send 1: no link from chip 3 to chip 2");
  EXPECT_EQ(one(1, 2, -1, {}), "send 1: -1 bytes");
  EXPECT_EQ(one(1, 2, 1, {7}), "send 1 waits for send 7, which chip 1 neither receives nor sends");
  EXPECT_EQ(one(2, 1, 1, {0}), "send 1 waits for send 0, which chip 2 neither receives nor sends");
  for (const LinkCost& cost : {LinkCost{0, 0, 0}, LinkCost{1, -1, 0}, LinkCost{1, 0, -1},
                               LinkCost{1, std::numeric_limits<double>::infinity(), 0}})
    EXPECT_THAT(refusal({}, LinkOrder::arrival, ErrorCode::bad_input, cost),
                testing::HasSubstr("must be above 0"));
}

}  // namespace
}  // namespace bitrift::comm
