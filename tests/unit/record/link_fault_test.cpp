#include "record/fault/link_fault.h"

#include <limits>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "core/error.h"
#include "record/fault/faults.h"
#include "record/fault/message_map.h"

namespace bitrift::record::link_fault_test {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

TEST(LinkFault, OfATextHasEveryPartOfIt) {
  EXPECT_EQ(link_fault_from_text("12@5:0.3.30"), (LinkFault{5, 0, 12, 3, 30}));
  EXPECT_EQ(to_text({5, 0, 12, 3, 30}), "12@5:0.3.30");
}

TEST(LinkFault, SurvivesTextAndJson) {
  for (const LinkFault& fault : {LinkFault{}, LinkFault{largest, largest, largest, largest, 63}}) {
    EXPECT_EQ(link_fault_from_text(to_text(fault)), fault);
    EXPECT_EQ(Json::parse(to_json(fault).dump()).get<LinkFault>(), fault);
  }
}

class HostileLinkText : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(HostileLinkText, IsRefusedWithWhatWasExpected) {
  const auto& [text, says] = GetParam();
  try {
    (void)link_fault_from_text(text);
    FAIL() << "accepted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_THAT(error.what(), HasSubstr(says));
    EXPECT_THAT(error.what(), HasSubstr("expected SEND@STEP:BUCKET.ELEMENT.BIT"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, HostileLinkText,
    ::testing::Values(std::pair("", "no '@' after the send"), std::pair("1", "no '@' after the send"),
                      std::pair("1@2", "no ':' after the step"),
                      std::pair("1@2:3", "no '.' after the bucket"),
                      std::pair("1@2:3.4", "no '.' after the element"),
                      std::pair("1@2:3.4.", "'' is not a valid bit"),
                      std::pair("1@2:3.4.5.6", "'5.6' is not a valid bit"),
                      std::pair("1@2:3.4.64", "'64' is not a valid bit"),
                      std::pair("1@0:3.4.5", "'0' is not a valid step (they begin at 1)"),
                      std::pair("-1@2:3.4.5", "'-1' is not a valid send"),
                      std::pair("+1@2:3.4.5", "'+1' is not a valid send"),
                      std::pair(" 1@2:3.4.5", "' 1' is not a valid send"),
                      std::pair("1@2:3.99999999999999999999.5", "is not a valid element")));

TEST(AlteredMessage, SurvivesJson) {
  const AlteredMessage altered = {{5, 0, 12, 3, 30}, {0, 1},    {1, 1}, 7,
                                  MessageKind::copy, "float32", 0x3f0,  0x400003f0};
  const Json value = altered;
  EXPECT_EQ(value.at("old"), "0x000003f0");
  EXPECT_EQ(value.at("to"), (Json{{"row", 1}, {"column", 1}}));
  EXPECT_EQ(Json::parse(value.dump()).get<AlteredMessage>(), altered);
}

TEST(Faults, OfLinksAreAKindOfTheirOwn) {
  const Faults faults(std::vector<LinkFault>{{5, 0, 12, 3, 30}, {6, 1, 2, 3, 4}});
  EXPECT_TRUE(faults.of_links());
  EXPECT_FALSE(faults.of_processes());
  EXPECT_EQ(faults.size(), 2U);
  EXPECT_TRUE(faults.bits().empty() && faults.processes().empty());
  const Json value = faults;
  EXPECT_EQ(value.at(0),
            (Json{{"link", {{"step", 5}, {"bucket", 0}, {"send", 12}, {"element", 3}, {"bit", 30}}}}));
  EXPECT_EQ(value.get<Faults>(), faults);
  Json mixed = value;
  mixed.push_back({{"process", to_json(ProcessFault{})}});
  EXPECT_THROW((void)mixed.get<Faults>(), Error);
}

MessageMap map_of_two_buckets() {
  return {22, "float32", 4, {10, 3}, {{0, MessageKind::add}, {2, MessageKind::copy}, {3, MessageKind::copy}}};
}

TEST(MessageMap, FirstChunksHaveOneElementMore) {
  const MessageMap map = map_of_two_buckets();
  EXPECT_EQ(map.elements(0, map.sends[0]), 3);
  EXPECT_EQ(map.elements(0, map.sends[1]), 2);
  EXPECT_EQ(map.elements(1, map.sends[1]), 1);
  EXPECT_EQ(map.elements(1, map.sends[2]), 0);
  EXPECT_EQ(map.bits(), 32);
}

TEST(MessageMap, SurvivesJsonAndRefusesOthers) {
  const MessageMap map = map_of_two_buckets();
  EXPECT_EQ(message_map_from_json(Json::parse(to_json(map).dump())), map);
  for (const auto& [key, bad] : {std::pair<const char*, Json>{"chunks", 3},
                                 {"dtype", "float31"},
                                 {"sends", 3},
                                 {"buckets", {10, 0}},
                                 {"steps_per_epoch", 0}}) {
    Json value = to_json(map);
    value[key] = bad;
    EXPECT_THROW((void)message_map_from_json(value), Error) << key;
  }
}

TEST(MessageMap, SaysWhatThereIs) {
  const MessageMap map = map_of_two_buckets();
  check_exists({1, 0, 0, 2, 31}, map);
  const auto refusal = [&](const LinkFault& fault) -> std::string {
    try {
      check_exists(fault, map);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({1, 2, 0, 0, 0}), HasSubstr("there is no bucket 2; there are 0 to 1"));
  EXPECT_THAT(refusal({1, 0, 3, 0, 0}), HasSubstr("there is no send 3; there are 0 to 2"));
  EXPECT_THAT(refusal({1, 0, 1, 2, 0}), HasSubstr("there is no element 2; there are 0 to 1"));
  EXPECT_THAT(refusal({1, 1, 2, 0, 0}), HasSubstr("there is no element 0; there is none"));
  EXPECT_THAT(refusal({1, 0, 0, 0, 32}), HasSubstr("there is no bit 32; there are 0 to 31"));
}

}  // namespace
}  // namespace bitrift::record::link_fault_test
