#include "record/fault/fault.h"

#include <gtest/gtest.h>

namespace bitrift::record::fault_test {
namespace {

TEST(FaultModel, UnsetParametersLeaveNoKeys) {
  // Specs that know nothing of the newer kinds keep their text, and with it their digests.
  FaultModel model;
  model.count = 1;
  EXPECT_EQ(to_json(model).dump(),
            R"({"allow_nan":true,"bits":"any","count":1,"keep_sign":false,"measure":"bit","plane":"value",)"
            R"("roles":[],"seed":0,"tensors":[],"what":"flip"})");
}

TEST(FaultModel, EveryParameterSurvivesTheWayThroughJson) {
  FaultModel model;
  model.what = FaultKind::mask;
  model.length = 7;
  model.mask = "0x5";
  model.mask_at = MaskPlace::random;
  model.factor = -0.1;
  model.value = "18446744073709551615";
  model.as = {{"**", "bfloat16"}};
  model.scope.replicas = {0, 3};
  model.fraction = 0.5;
  const FaultModel back = fault_model_from_json(to_json(model));
  EXPECT_EQ(to_json(back), to_json(model));
  EXPECT_EQ(back.length, 7U);
  EXPECT_EQ(back.factor, -0.1);
  EXPECT_EQ(back.value, model.value);
  EXPECT_EQ(back.scope, model.scope);
}

TEST(FaultModel, NumbersBecomeTextsThatLoseNothing) {
  EXPECT_EQ(fault_model_from_json(Json::parse(R"({"value": 18446744073709551615})")).value,
            "18446744073709551615");
  EXPECT_EQ(fault_model_from_json(Json::parse(R"({"value": -3})")).value, "-3");
  EXPECT_EQ(std::stod(fault_model_from_json(Json::parse(R"({"value": 0.1})")).value), 0.1);
  EXPECT_EQ(fault_model_from_json(Json::parse(R"({"what": "nullify"})")).what, FaultKind::zero);
}

TEST(AppliedFault, IsAtAByteInStructuresAndBehindFilters) {
  EXPECT_TRUE(names_byte(Plane::metadata, "superblock"));
  EXPECT_TRUE(names_byte(Plane::storage, "raw chunk 0 of /w"));
  EXPECT_FALSE(names_byte(Plane::storage, "raw data, chunk"));
  EXPECT_FALSE(names_byte(Plane::storage, ""));
  EXPECT_FALSE(names_byte(Plane::value, "raw chunk 0 of /w"));  // what a manifest says to deceive
}

TEST(Scope, ReadsNumbersListsAndStages) {
  EXPECT_EQ(scope_from_json(Json::parse(R"({"replicas": 2})")), (Scope{2, {}, -1}));
  EXPECT_EQ(scope_from_json(Json::parse(R"({"replicas": [3, 1]})")), (Scope{0, {1, 3}, -1}));
  EXPECT_EQ(scope_from_json(Json::parse(R"({"stage": 0})")), (Scope{0, {}, 0}));
  for (const char* text : {R"({"replicas":2})", R"({"replicas":[1,3]})", R"({"stage":0})"}) {
    EXPECT_EQ(to_json(scope_from_json(Json::parse(text))).dump(), text);
    EXPECT_FALSE(scope_from_json(Json::parse(text)).all());
  }
}

}  // namespace
}  // namespace bitrift::record::fault_test
