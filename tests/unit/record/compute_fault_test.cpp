#include "record/fault/compute_fault.h"

#include <limits>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "core/error.h"
#include "record/fault/compute_map.h"
#include "record/fault/faults.h"
#include "tests_support.h"

namespace bitrift::record::compute_fault_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::error_of;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

ComputeFault example() {
  return {.site = ComputeSite::gradient,
          .tensor = "layer1.0",
          .step = 5,
          .replica = 1,
          .micro_batch = 2,
          .element = 17,
          .bit = 30};
}

ComputeFault extreme() {
  return {.site = ComputeSite::update,
          .tensor = "a@b:c.d+e*f/g",
          .step = largest,
          .replica = largest,
          .element = largest,
          .bit = 63,
          .lasting = largest,
          .every = largest,
          .elements = largest,
          .stride = largest};
}

TEST(ComputeFault, OfATextHasEveryPartOfIt) {
  EXPECT_EQ(compute_fault_from_text("gradient:layer1.0@5:1.2.17.30"), example());
  ComputeFault lasting = example();
  lasting.lasting = 0;
  lasting.every = 3;
  lasting.elements = 4;
  lasting.stride = 8;
  EXPECT_EQ(compute_fault_from_text("gradient:layer1.0@5:1.2.17.30+permanent/3*4/8"), lasting);
  EXPECT_EQ(to_text(lasting), "gradient:layer1.0@5:1.2.17.30+permanent/3*4/8");
}

TEST(ComputeFault, SurvivesTextAndJson) {
  ComputeFault strided = example();
  strided.stride = 2;  // without a second element it means nothing, but must not be lost
  ComputeFault spaced = example();
  spaced.every = 2;
  ComputeFault zero = extreme();
  zero.bit = 0;
  zero.effect = ComputeEffect::zero;
  ComputeFault nan = zero, inf = zero;
  nan.lasting = nan.every = nan.elements = nan.stride = 1;
  nan.effect = ComputeEffect::nan;
  inf.effect = ComputeEffect::inf;
  for (const ComputeFault& fault : {example(), extreme(), strided, spaced, zero, nan, inf}) {
    EXPECT_EQ(compute_fault_from_text(to_text(fault)), fault) << to_text(fault);
    EXPECT_EQ(compute_fault_from_json(Json::parse(to_json(fault).dump())), fault);
    const Faults faults = std::vector{fault};
    EXPECT_EQ(Json(faults).get<Faults>(), faults);
  }
}

TEST(ComputeFault, StrikesAsOftenAsItSays) {
  const auto steps = [](const ComputeFault& fault) {
    std::vector<std::int64_t> found;
    for (std::int64_t step = 1; step <= 12; ++step) {
      if (fault.strikes(step)) found.push_back(step);
    }
    return found;
  };
  ComputeFault fault{.tensor = "a", .step = 4};
  EXPECT_THAT(steps(fault), ElementsAre(4));
  EXPECT_EQ(fault.last_step(), 4);
  fault.lasting = 3;
  EXPECT_THAT(steps(fault), ElementsAre(4, 5, 6));
  fault.every = 3;
  EXPECT_THAT(steps(fault), ElementsAre(4, 7, 10));
  EXPECT_EQ(fault.last_step(), 10);
  fault.lasting = 0;
  fault.every = 4;
  EXPECT_THAT(steps(fault), ElementsAre(4, 8, 12));
  EXPECT_EQ(fault.last_step(), std::nullopt);
  EXPECT_EQ(extreme().last_step(), std::nullopt);  // beyond what any run reaches
}

TEST(ComputeFault, SetsPatternsOfTheFormat) {
  const auto after = [](const char* text, const char* dtype, std::uint64_t old) {
    return pattern_after(compute_fault_from_text(text), dtype, old);
  };
  EXPECT_EQ(after("gradient:a@1:0.0.0.63", "float64", 1), 0x8000000000000001U);
  EXPECT_EQ(after("gradient:a@1:0.0.0.zero", "float32", 0xbf800000U), 0U);
  EXPECT_EQ(after("gradient:a@1:0.0.0.nan", "float32", 1), 0x7fc00000U);
  EXPECT_EQ(after("gradient:a@1:0.0.0.nan+2/3*4", "bfloat16", 1), 0x7fc0U);
  EXPECT_EQ(after("gradient:a@1:0.0.0.inf*4", "float16", 1), 0x7c00U);
  EXPECT_EQ(after("gradient:a@1:0.0.0.inf", "float64", 1), 0x7ff0000000000000U);
}

TEST(ComputeFault, ThatIsImpossibleIsRefused) {
  const Json good = to_json(example());
  for (const auto& [key, value] : std::vector<std::pair<const char*, Json>>{{"step", 0},
                                                                            {"replica", -1},
                                                                            {"micro_batch", -1},
                                                                            {"element", -1},
                                                                            {"bit", 64},
                                                                            {"lasting", "ever"},
                                                                            {"lasting", -1},
                                                                            {"every", 0},
                                                                            {"elements", 0},
                                                                            {"stride", 0},
                                                                            {"tensor", ""},
                                                                            {"site", "update"}}) {
    Json bad = good;
    bad[key] = value;
    EXPECT_THAT(error_of([&] { (void)compute_fault_from_json(bad); }),
                HasSubstr("a fault while computing: expected 'site'"))
        << bad.dump();
  }
  const Json mixed = {{{"compute", good}},
                      {{"link", {{"step", 1}, {"bucket", 0}, {"send", 0}, {"element", 0}, {"bit", 0}}}}};
  EXPECT_THAT(error_of([&] { (void)mixed.get<Faults>(); }), HasSubstr("'faults' mixes"));
}

TEST(AlteredValue, SurvivesJson) {
  const AlteredValue altered{example(), "bfloat16", 0x3f80, 0x7f80, 3};
  EXPECT_EQ(Json::parse(Json(altered).dump()).get<AlteredValue>(), altered);
  EXPECT_EQ(Json(altered)["new"], "0x7f80");
}

class HostileComputeText : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(HostileComputeText, IsRefusedWithWhatWasExpected) {
  const auto& [text, says] = GetParam();
  const std::string said = error_of([&] { (void)compute_fault_from_text(text); });
  EXPECT_THAT(said, HasSubstr(says)) << text;
  EXPECT_THAT(said, HasSubstr("expected SITE:TENSOR@STEP:REPLICA.MICRO_BATCH.ELEMENT.BIT"));
}

INSTANTIATE_TEST_SUITE_P(
    All, HostileComputeText,
    ::testing::Values(std::pair("", "'' is not a site"), std::pair("update", "no ':' after the site"),
                      std::pair("update:", "no '@' after the tensor"),
                      std::pair("update:@1:0.0.0.0", "no tensor is named"),
                      std::pair("update:a@", "'' is not a valid step"),
                      std::pair("update:a@1", "no ':' after the step"),
                      std::pair("update:a@1:0", "no '.' after the replica"),
                      std::pair("update:a@1:0.0.0.", "'' is not a valid bit"),
                      std::pair("update:a@1:0.0.0.64", "'64' is not a valid bit"),
                      std::pair("update:a@1:0.0.0.zeros", "'zeros' is not a valid bit"),
                      std::pair("update:a@1:0.0.0.zero5", "'zero5' is not a valid bit"),
                      std::pair("update:a@1:0.0.0.flip", "'flip' is not a valid bit"),
                      std::pair("update:a@1:0.0.0.1.2", "'.2' follows the bit"),
                      std::pair("update:a@1:0.0.0.1+", "'' is not a valid number of times"),
                      std::pair("update:a@1:0.0.0.1+permanently/2", "'permanently' is not a valid number"),
                      std::pair("update:a@1:0.0.0.1+2/0", "'0' is not a valid distance of steps"),
                      std::pair("update:a@1:0.0.0.1*2+2", "'+2' follows the bit"),
                      std::pair("update:a@1:0.0.0.1*0", "'0' is not a valid number of elements"),
                      std::pair("update:a@1:0.0.0.1*2/-1", "'-1' is not a valid stride"),
                      std::pair("update:a@+1:0.0.0.1", "'' is not a valid step"),
                      std::pair("update:a@1:0.1.0.1", "a step has one update for all micro-batches"),
                      std::pair("parameter:a@1:0.1.0.1", "a step has one parameter for all micro-batches"),
                      std::pair("parameter:a@1:0.0.0.1+2", "a parameter keeps its flipped bit"),
                      std::pair("parameter:a@1:0.0.0.1+permanent", "it strikes once"),
                      std::pair("update:a@1:0.0.99999999999999999999.1", "is not a valid element")));

}  // namespace
}  // namespace bitrift::record::compute_fault_test
