#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "study/row/study_spec.h"
#include "unit/scratch.h"

namespace bitrift::study {
namespace {

using ::testing::ElementsAre;

constexpr const char* training = R"({"model": {"name": "lenet"}, "data": {"name": "digits"},
  "optimizer": {"name": "sgd", "learning_rate": 0.05}, "batch_size": 64, "epochs": 1, "seed": 1})";

class SpecTest : public ::testing::Test {
 protected:
  StudySpec read(const std::string& keys) {
    bitrift::testing::write_bytes(scratch_ / "s.json", R"({"name": "s", )" + keys + "}");
    return read_study_spec(scratch_ / "s.json");
  }
  std::string trained() const { return std::string(R"("base": {"train": )") + training + "}"; }

  bitrift::testing::Scratch scratch_;
};

TEST_F(SpecTest, WhatIsNotAskedForIsAll) {
  const StudySpec spec = read(trained());
  EXPECT_EQ(spec.kinds().size(), file_kinds.size());
  EXPECT_THAT(spec.parts, ElementsAre(StudyPart::size, StudyPart::determinism, StudyPart::damage,
                                      StudyPart::kill, StudyPart::state));
  EXPECT_EQ(spec.kill.kills, 300);
  EXPECT_EQ(spec.state.steps, 50);
  EXPECT_EQ(spec.damage.flips, 400);
  EXPECT_EQ(spec.base.train->seed, 1);
  EXPECT_FALSE(spec.base.steps);
}

TEST_F(SpecTest, FlipsAreReplayedWhereTheSpecAsksForIt) {
  EXPECT_EQ(read(trained() + R"(, "parts": ["damage", "replay"])").replay.flips, 300);
  const StudySpec spec = read(trained() + R"(, "replay": {"flips": 7, "epochs": 2, "seed": 9})");
  EXPECT_TRUE(spec.has(StudyPart::replay));
  EXPECT_EQ(spec.replay.flips, 7);
  EXPECT_EQ(spec.replay.epochs, 2);
  EXPECT_EQ(to_json(spec)["replay"]["seed"], 9);
  EXPECT_ERROR(read(trained() + R"(, "parts": ["replay"])"), bad_input, "s.json:2: parts: replay repeats");
}

TEST_F(SpecTest, ChoicesHaveTheOrderOfTheTables) {
  const StudySpec spec = read(trained() + R"(, "formats": ["npz", "hdf5"], "writers": ["native", "bitrift"],
    "parts": ["damage", "size"], "damage": {"flips": 7, "seed": 3, "timeout_seconds": 1.5, "memory": "2M"})");
  ASSERT_EQ(spec.kinds().size(), 4);
  EXPECT_EQ(spec.kinds()[0].name(), "hdf5-bitrift");
  EXPECT_EQ(spec.kinds()[3].file_name(), "npz-native.npz");
  EXPECT_THAT(spec.parts, ElementsAre(StudyPart::size, StudyPart::damage));
  EXPECT_FALSE(spec.has(StudyPart::determinism));
  EXPECT_EQ(spec.damage.memory, 2U << 20U);
  EXPECT_EQ(spec.damage.timeout_seconds, 1.5);
}

TEST_F(SpecTest, ReplicasNeedSeveralRanksThatDivideTheBatch) {
  EXPECT_FALSE(to_json(read(trained()))["cost"].contains("shard_optimizer"));
  const StudySpec spec = read(trained() + R"(, "cost": {"ranks": [1, 2], "shard_optimizer": [false, true]})");
  EXPECT_THAT(spec.cost.shard_optimizer, ElementsAre(false, true));
  EXPECT_EQ(to_json(spec)["cost"]["shard_optimizer"].dump(), "[false,true]");
  EXPECT_ERROR(read(trained() + R"(, "cost": {"ranks": [1], "shard_optimizer": [true]})"), bad_input,
               "cost.shard_optimizer: replicas are more than one rank");
  EXPECT_ERROR(read(trained() + R"(, "cost": {"ranks": [1, 3], "shard_optimizer": [true]})"), bad_input,
               "cost.shard_optimizer: a batch of 64 cannot be split evenly over 3 replica(s)");
}

TEST_F(SpecTest, ATrainingSpecCanBeAFileBesideIt) {
  bitrift::testing::write_bytes(scratch_ / "t.json", training);
  const StudySpec named = read(R"("base": {"train": "t.json", "steps": 5})");
  EXPECT_EQ(*named.base.steps, 5);
  EXPECT_EQ(to_json(named)["base"]["train"], to_json(read(trained()))["base"]["train"]);
}

TEST_F(SpecTest, EqualSpecsAreEqualValues) {
  EXPECT_EQ(to_json(read(trained())), to_json(read(trained() + R"(, "damage": {"flips": 400})")));
  EXPECT_NE(to_json(read(trained())), to_json(read(trained() + R"(, "damage": {"flips": 401})")));
  EXPECT_NE(to_json(read(trained())), to_json(read(trained() + R"(, "damage": {"memory": "1M"})")));
}

// Such a study has the formats that it began with, in its identity, and continues with a later version.
TEST_F(SpecTest, AllFormatsAreThoseOfOlderStudies) {
  EXPECT_EQ(to_json(read(trained()))["formats"].dump(),
            R"(["hdf5","hdf5-gzip","pytorch","npz","npz-deflated","safetensors","dcp"])");
  EXPECT_EQ(to_json(read(trained() + R"(, "formats": ["keras", "npz"])"))["formats"].dump(),
            R"(["npz","keras"])");
}

TEST_F(SpecTest, MistakesNameTheirKey) {
  EXPECT_ERROR(read(R"("base": {})"), bad_input, "s.json:1: base: expected exactly one of");
  EXPECT_ERROR(read(R"("base": {"checkpoint": "no.h5"})"), not_found, "base.checkpoint: no file");
  EXPECT_ERROR(read(R"("base": {"train": "no.json"})"), not_found, "no.json");
  EXPECT_ERROR(read(R"("base": {"checkpoint": "no.h5", "steps": 3})"), bad_input, "base.steps");
  EXPECT_ERROR(read(trained() + R"(, "formats": ["zip"])"), bad_input, "formats[0]");
  EXPECT_ERROR(read(trained() + R"(, "formats": ["dcp"], "writers": ["bitrift"])"), bad_input, "formats");
  EXPECT_ERROR(read(trained() + R"(, "damage": {"flips": 0})"), bad_input, "damage.flips");
  EXPECT_ERROR(read(trained() + R"(, "damage": {"memory": "much"})"), bad_input, "damage.memory");
  EXPECT_ERROR(read(trained() + R"(, "flips": 3)"), bad_input, "flips");
  std::string bf16 = trained();
  bf16.replace(bf16.find("\"epochs\""), 0, "\"precision\": \"bf16\", ");
  EXPECT_ERROR(read(bf16), unsupported, "bfloat16");
}

TEST_F(SpecTest, ACheckpointOfAnotherFormatIsRefused) {
  bitrift::testing::write_bytes(scratch_ / "a.pt", std::string("PK\3\4") + std::string(100, '\0'));
  EXPECT_ERROR(read(R"("base": {"checkpoint": "a.pt"})"), unsupported, "name an HDF5 checkpoint");
}

}  // namespace
}  // namespace bitrift::study
