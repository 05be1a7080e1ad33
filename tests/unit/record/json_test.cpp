#include "record/json/json.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "record/json/schema.h"
#include "tests_support.h"

namespace bitrift::record::json_test {
namespace {

using ::testing::HasSubstr;
using tests::error_of;

TEST(Json, RemembersTheLineOfEveryKeyAndElement) {
  const Document document =
      parse_text("{\n  \"a\": 1,\n  \"b\": {\n    \"c\": [10,\n      20]\n  },\n  \"d/e\": 5\n}", "f.json");
  EXPECT_EQ(document.place("/a"), "f.json:2");
  EXPECT_EQ(document.place("/b"), "f.json:3");
  EXPECT_EQ(document.place("/b/c"), "f.json:4");
  EXPECT_EQ(document.place("/b/c/0"), "f.json:4");
  EXPECT_EQ(document.place("/b/c/1"), "f.json:5");
  EXPECT_EQ(document.place("/d~1e"), "f.json:7");
  EXPECT_EQ(document.place("/b/c/1/x/y"), "f.json:5") << "an unknown place is that of its nearest ancestor";
}

TEST(Json, RefusesAKeyThatStandsTwice) {
  EXPECT_THAT(error_of([] { (void)parse_text("{\"a\": 1,\n\"a\": 2}", "f.json"); }),
              HasSubstr("f.json:2: key 'a' occurs twice"));
}

TEST(Json, RefusesBrokenTextWithItsLineOnOneLine) {
  for (const char* text : {"", "{", "{\"a\": }", "[1,]", "{\"a\": 1e999}", "\xff", "{\"a\":\n\n nul}"}) {
    const std::string message = error_of([&] { (void)parse_text(text, "f.json"); });
    EXPECT_THAT(message, HasSubstr("f.json")) << text;
    EXPECT_THAT(message, HasSubstr("line")) << text;
    EXPECT_EQ(message.find('\n'), std::string::npos) << text;
  }
}

TEST(Json, RefusesNestingThatCouldOverflowTheStack) {
  EXPECT_THAT(error_of([] { (void)parse_text(std::string(100000, '['), "f.json"); }),
              HasSubstr("nested deeper"));
}

TEST(Json, HandsElementsOverOneByOne) {
  const std::string text =
      "{\"a\": [{\"x\": 1}],\n\"list\": [{\"x\": {\"list\": [{}]}},\n{\"x\": [1, {}]}, 7, {}],\n\"b\": "
      "[{\"list\": 2}]}";
  std::vector<std::string> taken;
  const Elements elements{"list", [&](const Json& one) { taken.push_back(one.dump()); }};
  const Document document = parse_text(text, "f.json", &elements);
  EXPECT_THAT(taken, ::testing::ElementsAre(R"({"x":{"list":[{}]}})", R"({"x":[1,{}]})", "{}"));
  EXPECT_EQ(document.value.dump(), R"({"a":[{"x":1}],"b":[{"list":2}],"list":[7]})");
  EXPECT_EQ(document.place("/list"), "f.json:2");
  EXPECT_EQ(document.place("/list/1/x"), "f.json:2") << "nothing is noted within";
  EXPECT_EQ(document.place("/b/0/list"), "f.json:4");
  const Json whole = parse_text(text, "f.json").value;
  for (const std::size_t i : {0U, 1U, 3U}) EXPECT_EQ(whole["list"][i].dump(), taken[i == 3 ? 2 : i]);
}

TEST(Json, ElementsMayNotDoubleKeysEither) {
  const Elements elements{"list", [](const Json&) {}};
  EXPECT_THAT(error_of([&] { (void)parse_text("{\"list\": [{\"a\": 1,\n\"a\": 2}]}", "f.json", &elements); }),
              HasSubstr("f.json:2: key 'a' occurs twice"));
}

TEST(Json, NonFiniteNumbersAreStringsAndComeBack) {
  EXPECT_EQ(number_to_json(std::numeric_limits<double>::infinity()), "Infinity");
  EXPECT_TRUE(std::isnan(number_from_json(number_to_json(std::nan("")))));
  EXPECT_EQ(number_from_json(number_to_json(-std::numeric_limits<double>::infinity())),
            -std::numeric_limits<double>::infinity());
  EXPECT_EQ(number_from_json(Json::parse(number_to_json(0.1).dump())), 0.1);
  EXPECT_THROW((void)number_from_json("nan"), Error);
}

TEST(Json, HexFloatsAreExact) {
  EXPECT_EQ(hex_float(1.5), "0x1.8p+0");
  EXPECT_EQ(std::strtod(hex_float(0.1).c_str(), nullptr), 0.1);
  EXPECT_EQ(hex_float(std::nan("")), "nan");
  EXPECT_EQ(hex_float(-HUGE_VAL), "-inf");
}

TEST(Schema, NamesFileLineKeyExpectedAndFound) {
  const Json schema = Json::parse(R"({
    "type": "object", "additionalProperties": false, "required": ["n"],
    "properties": {
      "n": {"type": "integer", "minimum": 1},
      "kind": {"type": "string", "enum": ["a", "b"]},
      "list": {"type": "array", "uniqueItems": true, "items": {"type": "object", "additionalProperties": false,
               "properties": {"x": {"type": "number", "exclusiveMinimum": 0}}}}}})");
  const auto problem = [&](const char* text) {
    return error_of([&] { check_schema(parse_text(text, "f.json"), schema); });
  };
  EXPECT_EQ(problem("{\"n\": 3}"), "");
  EXPECT_EQ(problem("{\n\"kinds\": 3}"), "f.json:2: kinds: unknown key; did you mean 'kind'?");
  EXPECT_EQ(problem("{\n\"m\": 3}"), "f.json:2: m: unknown key; expected one of: kind, list, n");
  EXPECT_EQ(problem("{\n\"n\": \"3\"}"), "f.json:2: n: expected integer, found string \"3\"");
  EXPECT_EQ(problem("{\n\"n\": 0}"), "f.json:2: n: expected a number of at least 1, found 0");
  EXPECT_EQ(problem("{\"n\": 1,\n\n\"kind\": \"c\"}"), "f.json:3: kind: expected one of: a, b; found \"c\"");
  EXPECT_EQ(problem("{}"), "f.json:1: the document: key 'n' is missing");
  EXPECT_EQ(problem("{\"n\": 1, \"list\": [{\"x\": 1},\n{\"x\": 0}]}"),
            "f.json:2: list[1].x: expected a number more than 0, found 0");
  EXPECT_EQ(problem("{\"n\": 1, \"list\": [{\"x\": 1}, {\"x\": 1}]}"),
            "f.json:1: list[1]: {\"x\":1} occurs twice in the list");
}

TEST(Schema, TheShippedOnesAreThere) {
  for (const char* name : {"train", "campaign", "run-result"})
    EXPECT_TRUE(shipped_schema(name).contains("properties")) << name;
  EXPECT_THROW((void)shipped_schema("none"), Error);
}

}  // namespace
}  // namespace bitrift::record::json_test
