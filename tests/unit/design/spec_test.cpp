#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/file.h"
#include "design/campaign_spec.h"
#include "design/kind/bit_strata.h"
#include "design/kind/model_strata.h"
#include "spec/training_spec.h"
#include "tests_support.h"
#include "unit/places.h"

namespace bitrift::design::spec_test {
namespace {

using namespace record;
using ::testing::HasSubstr;
using tests::error_of;

const char* const train_text = R"({
  "model": {"name": "lenet"},
  "data": {"name": "digits"},
  "optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9},
  "batch_size": 64, "epochs": 10, "seed": 9007199254740991
})";

class SpecTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "bitrift-spec-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The training of train_text with one value replaced by dotted key.
  std::string train_error(const char* pointer, const Json& value) {
    Json spec = Json::parse(train_text);
    spec[Json::json_pointer(pointer)] = value;
    replace_text(folder_ / "t.json", spec.dump(1));
    return error_of([&] { (void)read_training_spec(folder_ / "t.json"); });
  }
  std::string campaign_error(const std::vector<std::string>& overrides) {
    return error_of([&] { (void)read_campaign_spec(quickstart(), overrides); });
  }
  static std::filesystem::path quickstart() {
    return std::filesystem::path(bitrift::testing::source_dir) / "campaigns" / "quickstart.json";
  }
  std::filesystem::path folder_;
};

TEST_F(SpecTest, TrainingIsReadInFull) {
  replace_text(folder_ / "t.json", train_text);
  const TrainingSpec spec = read_training_spec(folder_ / "t.json");
  EXPECT_EQ(spec.model.name, ModelName::lenet);
  EXPECT_EQ(spec.optimizer.momentum, 0.9);
  EXPECT_EQ(spec.seed, 9007199254740991u);
  EXPECT_EQ(spec.threads, 1);
  EXPECT_EQ(spec.parallel, Parallel{});
}

// The quickstart with another amount in the place of trials_per_stratum.
class AmountTest : public SpecTest {
 protected:
  CampaignSpec read(const Json& amount) {
    Json spec = parse_file(quickstart()).value;
    spec.erase("trials_per_stratum");
    spec.erase("$schema");
    spec.update(amount);
    replace_text(folder_ / "c.json", spec.dump(1));
    return read_campaign_spec(folder_ / "c.json");
  }
  std::string error(const Json& amount) {
    return error_of([&] { (void)read(amount); });
  }
};

TEST_F(AmountTest, SamplingIsReadInFullAndComesBack) {
  const Json sampling = {{"target", "strata"}, {"half_width", 0.03}, {"outcomes", {"crash", "sdc"}},
                         {"max_trials", 1000}, {"pilot", 5},         {"allocation", "even"}};
  const CampaignSpec spec = read({{"sampling", sampling}});
  ASSERT_TRUE(spec.sampling);
  EXPECT_EQ(spec.sampling->target, SamplingTarget::strata);
  EXPECT_EQ(spec.sampling->half_width, 0.03);
  EXPECT_EQ(spec.sampling->outcomes, (std::vector{OutcomeClass::sdc, OutcomeClass::crash}));
  EXPECT_EQ(spec.sampling->max_trials, 1000u);
  EXPECT_EQ(spec.sampling->pilot, 5u);
  EXPECT_EQ(spec.sampling->allocation, Allocation::even);
  EXPECT_EQ(spec.trials_per_stratum, 0u);
  EXPECT_EQ(to_json(campaign_spec_from_json(to_json(spec))), to_json(spec));
  const CampaignSpec least = read({{"sampling", {{"half_width", 0.1}}}});
  EXPECT_EQ(least.sampling->target, SamplingTarget::totals);
  EXPECT_EQ(least.sampling->outcomes.size(), 3u);
  EXPECT_EQ(least.sampling->pilot, 3u);
  EXPECT_FALSE(least.sampling->max_trials);
}

TEST_F(AmountTest, ExactlyOneAmountIsAskedFor) {
  EXPECT_TRUE(read({{"exhaustive", true}}).exhaustive);
  EXPECT_THAT(error(Json::object()), HasSubstr("exactly one of 'trials_per_stratum', 'sampling'"));
  EXPECT_THAT(error({{"exhaustive", false}}), HasSubstr("found 0"));
  const std::string both = error({{"exhaustive", true}, {"sampling", {{"half_width", 0.1}}}});
  EXPECT_THAT(both, HasSubstr("c.json:"));
  EXPECT_THAT(both, HasSubstr("sampling: expected exactly one"));
  EXPECT_THAT(campaign_error({"sampling.half_width=0.1"}), HasSubstr("found 2"));
}

TEST_F(AmountTest, SamplingThatMakesNoSenseIsRefusedByKey) {
  EXPECT_THAT(error({{"sampling", {{"half_width", 0.5}}}}), HasSubstr("sampling.half_width"));
  EXPECT_THAT(error({{"sampling", Json::object()}}), HasSubstr("key 'half_width' is missing"));
  EXPECT_THAT(error({{"sampling", {{"half_width", 0.1}, {"outcomes", {"SDC"}}}}}),
              HasSubstr("sampling.outcomes[0]: expected one of: masked, sdc, crash"));
  // 3 arms x 9 strata x 3 draws
  EXPECT_THAT(error({{"sampling", {{"half_width", 0.1}, {"max_trials", 80}}}}),
              HasSubstr("sampling.max_trials: round 0 alone may take 81 trials"));
  EXPECT_EQ(read({{"sampling", {{"half_width", 0.1}, {"max_trials", 81}}}}).sampling->max_trials, 81u);
}

TEST_F(SpecTest, CanonicalTextComesBackAndLeavesParallelOut) {
  replace_text(folder_ / "t.json", train_text);
  TrainingSpec spec = read_training_spec(folder_ / "t.json");
  const std::string text = to_text(spec);
  spec.parallel = {ParallelKind::data, 4, 2};
  EXPECT_EQ(to_text(spec), text);
  EXPECT_EQ(to_text(training_spec_from_text(text)), text);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST_F(SpecTest, AMeshIsReadWrittenAndReadAgain) {
  const Json value = {{"kind", "data"},
                      {"mesh",
                       {{"rows", 4},
                        {"columns", 3},
                        {"wrap", "columns"},
                        {"dead", {"0,0", "2,1,2x2"}},
                        {"dead_links", {"1,1-1,2"}}}}};
  const Parallel parallel = parallel_from_json(value);
  EXPECT_EQ(parallel.ranks, 7);
  EXPECT_EQ(parallel.mesh->schedule, comm::Scheme::trees);
  EXPECT_EQ(parallel.mesh->topology,
            comm::topology_from_text({"4x3", "columns", {"0,0", "2,1,2x2"}, {"1,1-1,2"}}));
  EXPECT_EQ(parallel_from_json(to_json(parallel)), parallel);
  EXPECT_NO_THROW(check_parallel(parallel, 14, "spec"));
}

TEST_F(SpecTest, RanksOfAMeshAreItsLiveChips) {
  Parallel parallel = parallel_from_json({{"kind", "data"}, {"mesh", {{"rows", 2}, {"columns", 2}}}});
  parallel.ranks = 3;
  EXPECT_THROW(check_parallel(parallel, 12, "spec"), Error);
  parallel = {.kind = ParallelKind::pipeline, .ranks = 4, .stages = 4, .mesh = parallel.mesh};
  EXPECT_THROW(check_parallel(parallel, 12, "spec"), Error);
}

TEST_F(SpecTest, OptimizerStateIsShardedOverReplicasOnly) {
  const Parallel parallel = parallel_from_json({{"kind", "data"}, {"ranks", 2}, {"shard_optimizer", true}});
  EXPECT_TRUE(parallel.shard_optimizer);
  EXPECT_EQ(parallel_from_json(to_json(parallel)), parallel);
  EXPECT_NO_THROW(check_parallel(parallel, 12, "spec"));
  EXPECT_FALSE(to_json(Parallel{}).contains("shard_optimizer"));
  const auto problem = [&](const Json& value) {
    return error_of([&] { check_parallel(parallel_from_json(value), 12, "spec"); });
  };
  EXPECT_THAT(problem({{"kind", "pipeline"}, {"ranks", 2}, {"shard_optimizer", true}}),
              HasSubstr("a pipeline run has no 'shard_optimizer'"));
  EXPECT_THAT(problem({{"kind", "hybrid"}, {"ranks", 2}, {"stages", 2}, {"shard_optimizer", true}}),
              HasSubstr("this run has one"));
}

TEST_F(SpecTest, AShardedRunRecoversByRelaunchOnly) {
  const Parallel sharded{.kind = ParallelKind::data, .ranks = 2, .shard_optimizer = true};
  for (const auto kind :
       {RecoveryKind::shrink, RecoveryKind::spare, RecoveryKind::respawn, RecoveryKind::restart}) {
    EXPECT_THAT(refusal_of_shards(kind, sharded), HasSubstr("choose relaunch"));
    EXPECT_EQ(refusal_of_shards(kind, {.kind = ParallelKind::data, .ranks = 2}), "");
  }
  EXPECT_EQ(refusal_of_shards(RecoveryKind::relaunch, sharded), "");
  EXPECT_EQ(refusal_of_shards(RecoveryKind::none, sharded), "");
}

TEST_F(SpecTest, ReplicasOfAShardedArmLoadTheSameFile) {
  const std::string arm =
      "arms=[{\"name\": \"one\", \"scope\": {\"replicas\": 1}, \"parallel\": {\"kind\": "
      "\"data\", \"ranks\": 2, \"shard_optimizer\": true}}]";
  EXPECT_THAT(campaign_error({arm}), HasSubstr("replicas cannot differ"));
}

TEST_F(SpecTest, MistakesInATrainingNameLineAndKey) {
  EXPECT_EQ(train_error("/model/name", "lenet"), "");
  EXPECT_THAT(train_error("/model/name", "lenet5"),
              HasSubstr("model.name: expected one of: mlp, lenet, resnet20"));
  EXPECT_THAT(train_error("/optimizer/learning_rate", "NaN"),
              HasSubstr("optimizer.learning_rate: expected number, found string"));
  EXPECT_THAT(train_error("/optimizer/learning_rate", -0.1), HasSubstr("more than 0"));
  EXPECT_THAT(train_error("/optimizer/beta1", 0.9), HasSubstr("optimizer.beta1: sgd has no 'beta1'"));
  EXPECT_THAT(train_error("/model/hidden", {64}), HasSubstr("lenet has no 'hidden'"));
  EXPECT_THAT(train_error("/data/name", "idx"), HasSubstr("key 'path' is missing"));
  EXPECT_THAT(train_error("/batch_sise", 1),
              HasSubstr("batch_sise: unknown key; did you mean 'batch_size'?"));
  EXPECT_THAT(train_error("/parallel", {{"kind", "data"}, {"ranks", 3}}),
              HasSubstr("a batch of 64 cannot be split evenly over 3"));
  EXPECT_THAT(train_error("/parallel", {{"kind", "serial"}, {"ranks", 2}}),
              HasSubstr("serial runs on 1 rank"));
  EXPECT_THAT(train_error("/epochs", 1.5), HasSubstr("epochs: expected integer, found number 1.5"));
  EXPECT_THAT(train_error("/seed", 18446744073709551615u),
              HasSubstr("seed: expected a number of at most 9007199254740991"));
}

TEST_F(SpecTest, TransformersOfNoSizeAreRefusedByKey) {
  for (const std::string key : {"layers", "heads", "width", "context"}) {
    Json model = {{"name", "gpt"}, {"layers", 2}, {"heads", 2}, {"width", 16}, {"context", 16}};
    model[key] = 0;
    EXPECT_THAT(train_error("/model", model),
                HasSubstr("model." + key + ": expected a number of at least 1"));
  }
}

TEST_F(SpecTest, DataThatMakeNoSenseAreRefusedByKey) {
  const auto with = [&](const char* key, double value) {
    return train_error("/data", {{"name", "digits"}, {key, value}});
  };
  EXPECT_THAT(with("test_fraction", 1), HasSubstr("data.test_fraction: expected a number less than 1"));
  EXPECT_THAT(with("mask_fraction", 1), HasSubstr("data.mask_fraction: expected a number less than 1"));
  EXPECT_THAT(train_error("/data/resize", 0), HasSubstr("data.resize: expected a number of at least 1"));
  EXPECT_THAT(train_error("/data/test_samples", 0),
              HasSubstr("data.test_samples: expected a number of at least 1"));
  EXPECT_THAT(train_error("/data", {{"name", "folder"}, {"path", "/"}, {"resize", 8}}),
              HasSubstr("key 'crop' is missing"));
}

TEST_F(SpecTest, TheQuickstartCampaignIsValidAndSurvivesItsCanonicalForm) {
  const CampaignSpec spec = read_campaign_spec(quickstart());
  EXPECT_GE(spec.trials_per_stratum * spec.strata.as<BitStrata>()->roles.size() *
                spec.strata.as<BitStrata>()->fields.size() * spec.arms.size(),
            300u);
  EXPECT_GE(spec.bases.front().min_test_accuracy, 0.95);
  EXPECT_EQ(to_json(campaign_spec_from_json(to_json(spec))), to_json(spec));
}

TEST_F(SpecTest, OverridesReplaceValuesAndAreNamedInErrors) {
  const CampaignSpec spec = read_campaign_spec(
      quickstart(),
      {"trials_per_stratum=3", "name=quick", "arms.0.name=one", "base.train.optimizer.learning_rate=0.25"});
  EXPECT_EQ(spec.trials_per_stratum, 3u);
  EXPECT_EQ(spec.name, "quick");
  EXPECT_EQ(spec.arms[0].name, "one");
  EXPECT_EQ(spec.bases.front().train->optimizer.learning_rate, 0.25);
  EXPECT_THAT(campaign_error({"trials_per_stratum=0"}),
              HasSubstr("--set trials_per_stratum: expected a number of at least 1"));
  EXPECT_THAT(campaign_error({"trial_per_stratum=1"}),
              HasSubstr("--set trial_per_stratum: unknown key; did you mean 'trials_per_stratum'?"));
  EXPECT_THAT(campaign_error({"seed"}), HasSubstr("expected key=value"));
  EXPECT_THAT(campaign_error({"arms.x.name=1"}), HasSubstr("there is no key"));
}

TEST_F(SpecTest, EveryArmRunsFromEveryBaseAndEveryPrecision) {
  const CampaignSpec plain = read_campaign_spec(quickstart());
  const Json train = to_json(plain).at("base").at("train");
  const std::string bases =
      Json{{{"name", "early"}, {"train", train}}, {{"name", "late"}, {"train", train}}}.dump();
  const CampaignSpec spec = read_campaign_spec(quickstart(), {"base=" + bases, "arms.1.precision=fp16"});
  ASSERT_EQ(spec.arms.size(), 2 * plain.arms.size());
  EXPECT_EQ(spec.arms[0].name, plain.arms[0].name + "@early");
  EXPECT_EQ(spec.arms[1].name, plain.arms[0].name + "@late");
  EXPECT_EQ(spec.base_of(spec.arms[3]).name, "late");
  std::vector<std::string> stems;
  for (const BaseFile& file : spec.files) stems.push_back(file.stem);
  EXPECT_THAT(stems, ::testing::ElementsAre("base-early", "base-late", "base-early-fp16", "base-late-fp16"));
  EXPECT_EQ(spec.files[spec.arms[3].file].stem, "base-late-fp16");
  EXPECT_EQ(to_json(campaign_spec_from_json(to_json(spec))), to_json(spec));
  EXPECT_EQ(campaign_spec_from_json(to_json(spec)).arms[3].name, spec.arms[3].name);
  EXPECT_THAT(campaign_error({"base=" + bases, "base.1.name=early"}),
              HasSubstr("--set base.1.name: a second base is named 'early'"));
  EXPECT_THAT(campaign_error({"base=" + bases, "base.1.name=a/b"}), HasSubstr("expected letters, digits"));
  EXPECT_THAT(campaign_error({"base=" + bases, "base.1.train.epochs=-1"}),
              HasSubstr("--set base.1.train.epochs: expected"));
  EXPECT_THAT(campaign_error({"base=[{\"name\": \"a\", \"checkpoint\": \"missing.h5\"}]"}),
              HasSubstr("base[0].checkpoint: no file"));
  EXPECT_THAT(campaign_error({"base=[]"}), HasSubstr("base"));
  EXPECT_THAT(campaign_error({"arms.0.precision=fp8"}), HasSubstr("--set arms.0.precision: expected one of"));
}

TEST_F(SpecTest, FaultModelsAreStrataOfTheirOwn) {
  const std::string models = R"({"models": [{"name": "ten", "roles": ["weight"], "count": 10},
                                            {"name": "rate", "bits": "exponent", "ber": 1e-6}]})";
  const CampaignSpec spec = read_campaign_spec(quickstart(), {"strata=" + models});
  const auto strata = spec.strata->strata();
  ASSERT_EQ(strata.size(), 2u);
  EXPECT_EQ(strata[0].name, "ten");
  EXPECT_EQ(strata[1].field, "exponent");
  EXPECT_EQ(spec.strata.as<ModelStrata>()->models[1].model.ber, 1e-6);
  EXPECT_EQ(to_json(campaign_spec_from_json(to_json(spec))), to_json(spec));
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"strata=" + models};
    all.insert(all.end(), more.begin(), more.end());
    return campaign_error(all);
  };
  EXPECT_THAT(refused({"strata.models.0.ber=0.1"}),
              HasSubstr("strata.models[0]: expected exactly one of 'count', 'fraction' and 'ber', found 2"));
  EXPECT_THAT(refused({"strata.models.1.name=ten"}), HasSubstr("a second model is named 'ten'"));
  EXPECT_THAT(refused({"strata.models.1.name=control"}), HasSubstr("choose another"));
  EXPECT_THAT(refused({"strata.models.1.bits=expo"}), HasSubstr("--set strata.models.1.bits: "));
  EXPECT_THAT(refused({"strata.roles=[\"weight\"]"}), HasSubstr("either 'roles' and 'fields', or 'models'"));
  EXPECT_THAT(refused({"strata.tensors=[\"model/**\"]"}), HasSubstr("each of them names its own"));
}

TEST_F(SpecTest, AScaleReplacesWhatItNamesAndOverridesComeAfterIt) {
  const std::string scales =
      R"(scales={"small": {"trials_per_stratum": 2, "resume": null, "strata": {"fields": ["sign"]}}})";
  const CampaignSpec full = read_campaign_spec(quickstart(), {scales});
  EXPECT_EQ(to_json(full), to_json(read_campaign_spec(quickstart())));
  const CampaignSpec small =
      read_campaign_spec(quickstart(), {"trials_per_stratum=5", "scale=small", scales});
  EXPECT_EQ(small.trials_per_stratum, 5u);
  EXPECT_EQ(small.strata.as<BitStrata>()->fields, std::vector<std::string>{"sign"});
  EXPECT_EQ(small.strata.as<BitStrata>()->roles, full.strata.as<BitStrata>()->roles);
  EXPECT_EQ(small.resume_epochs, 1);
  EXPECT_THAT(campaign_error({scales, "scale=tiny"}),
              HasSubstr("--set scale: scale: there is no 'tiny' in scales; there are full, small"));
}

TEST_F(SpecTest, EveryShippedCampaignIsValidInEveryScale) {
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(quickstart().parent_path())) {
    const std::filesystem::path& path = entry.path();
    const std::string name = path.filename().string();
    const bool campaign = path.extension() == ".json" && path.parent_path().filename() != "schema" &&
                          path.parent_path().filename() != "checkpoint-study" && !name.starts_with("train-");
    if (!campaign) continue;
    ++found;
    const Json scales = parse_file(path).value.value("scales", Json::object());
    const CampaignSpec spec = read_campaign_spec(path);
    EXPECT_EQ(to_json(campaign_spec_from_json(to_json(spec))), to_json(spec)) << path;
    for (const auto& [scale, ignored] : scales.items()) {
      EXPECT_NO_THROW(static_cast<void>(read_campaign_spec(path, {"scale=" + scale}))) << path;
    }
  }
  EXPECT_GE(found, 13u);
}

TEST_F(SpecTest, MistakesInACampaignNameLineAndKey) {
  EXPECT_THAT(campaign_error({"arms.1.name=serial"}),
              HasSubstr("--set arms.1.name: a second arm is named 'serial'"));
  EXPECT_THAT(campaign_error({"arms.1.name=a/b"}), HasSubstr("expected letters, digits"));
  EXPECT_THAT(campaign_error({"arms.1.name=" + std::string(200'000, 'a')}), HasSubstr("at most 200"));
  EXPECT_THAT(campaign_error({"strata.fields=[\"exponent\",\"exponent_msb\"]"}), HasSubstr("share bit"));
  EXPECT_THAT(campaign_error({"strata.fields=[\"expo\"]"}), HasSubstr("is not a bit field"));
  EXPECT_THAT(campaign_error({"strata.roles=[\"weights\"]"}),
              HasSubstr("strata.roles[0]: expected one of: weight"));
  EXPECT_THAT(campaign_error({"controls.envelope=5"}), HasSubstr("at least 20"));
  EXPECT_THAT(campaign_error({"base.checkpoint=x.h5"}), HasSubstr("exactly one of 'train' and 'checkpoint'"));
  EXPECT_THAT(campaign_error({"base={\"checkpoint\": \"missing.h5\"}"}), HasSubstr("no file"));
  EXPECT_THAT(campaign_error({"base.train.model.name=lenet5"}),
              HasSubstr("base.train.model.name: expected one of"));
  EXPECT_THAT(campaign_error({"arms.1.parallel.ranks=3"}), HasSubstr("cannot be split evenly over 3"));
}

}  // namespace
}  // namespace bitrift::design::spec_test
