#include "campaign/plan/plan.h"

#include <algorithm>
#include <bit>
#include <set>

#include <gmock/gmock.h>

#include "design/kind/bit_strata.h"
#include "design/kind/model_strata.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::plan_test {
namespace {

using record::TrialKind;
using ::testing::HasSubstr;
using testing::small_spec;
using testing::TemporaryFolder;
using tests::error_of;

class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    testing::write_base(folder_ / "base.h5");
    bases_.emplace_back(folder_ / "base.h5");
  }
  [[nodiscard]] const Bases& base() const { return bases_; }
  [[nodiscard]] std::string refusal(const design::CampaignSpec& spec) const {
    return error_of([&] { const Plan plan(spec, base()); });
  }
  void add_base(const std::string& name, const std::string& format);

  TemporaryFolder folder_;
  Bases bases_;
};

std::vector<record::AppliedFault> faults_of(const Plan& plan, const std::string& arm) {
  std::vector<record::AppliedFault> faults;
  for (const RunKey& key : plan.trials(arm)) faults.push_back(plan.expand(key).faults.bits().at(0));
  return faults;
}

TEST_F(PlanTest, StrataPartitionRolesByFieldsWithTheirSizes) {
  const design::CampaignSpec spec = small_spec();
  const Plan plan(spec, base());
  ASSERT_EQ(plan.cells().size(), 4U);
  EXPECT_EQ(plan.cells()[0].stratum.name, "weight.sign");
  EXPECT_EQ(plan.cells()[0].stratum.bits, 18U + 12 + 12);
  EXPECT_EQ(plan.cells()[1].stratum.bits, 8U * (18 + 12 + 12));
  EXPECT_EQ(plan.cells()[2].stratum.bits, 18U + 2 + 12 + 3 + 12 + 4);
  EXPECT_EQ(plan.rounds()[0].strata[1].draws, 9u);
}

TEST_F(PlanTest, EveryArmGetsTheSameFaultsAndNoneTwice) {
  const design::CampaignSpec spec = small_spec();
  const Plan plan(spec, base());
  const auto serial = faults_of(plan, "serial");
  EXPECT_EQ(serial, faults_of(plan, "data-2"));
  std::set<std::string> places;
  for (const auto& fault : serial) {
    places.insert(fmt::format("{}/{}/{}", fault.tensor, fault.element, fault.bits.at(0)));
    EXPECT_EQ(fault.old_pattern, 0x3f000000U);
    EXPECT_EQ(fault.old_pattern ^ fault.new_pattern, std::uint64_t{1} << fault.bits[0]);
  }
  EXPECT_EQ(places.size(), serial.size());
}

TEST_F(PlanTest, DrawsDependNeitherOnTheirNumberNorOnOtherStrata) {
  const design::CampaignSpec spec = small_spec();
  design::CampaignSpec other = spec;
  other.trials_per_stratum = 20;
  std::reverse(other.strata.edit<design::BitStrata>().roles.begin(),
               other.strata.edit<design::BitStrata>().roles.end());
  other.strata.edit<design::BitStrata>().fields.emplace_back("mantissa");
  const Plan plan(spec, base());
  const Plan wider(other, base());
  for (const RunKey& key : plan.trials("serial")) {
    EXPECT_EQ(plan.expand(key).faults, wider.expand(key).faults) << key.id.text();
  }
}

TEST_F(PlanTest, DrawingAWholeStratumHitsEachOfItsBitsOnce) {
  design::CampaignSpec spec = small_spec();
  spec.strata.edit<design::BitStrata>().roles = {"weight"};
  spec.strata.edit<design::BitStrata>().fields = {"sign"};
  spec.trials_per_stratum = 42;
  const Plan plan(spec, base());
  std::set<std::pair<std::string, std::uint64_t>> hit;
  for (const auto& fault : faults_of(plan, "serial")) hit.emplace(fault.tensor, fault.element);
  EXPECT_EQ(hit.size(), 42U);
}

TEST_F(PlanTest, SeedChangesTheFaults) {
  const design::CampaignSpec spec = small_spec();
  design::CampaignSpec other = spec;
  other.seed = 43;
  EXPECT_NE(faults_of(Plan(spec, base()), "serial"), faults_of(Plan(other, base()), "serial"));
}

TEST_F(PlanTest, AGlobMayBeMeantForSomeOfTheRoles) {
  design::CampaignSpec spec = small_spec();
  spec.strata.edit<design::BitStrata>().roles = {"weight", "bias"};
  spec.strata.edit<design::BitStrata>().tensors = {"model/conv1.weight", "model/fc2.bias", "**/conv1.*"};
  spec.trials_per_stratum = 2;
  const Plan plan(spec, base());
  ASSERT_EQ(plan.cells().size(), 4U);
  const auto paths = [&](std::size_t cell) {
    std::vector<std::string> found;
    for (const inject::Target& target : plan.cells()[cell].population->bits(0)->targets())
      found.push_back(target.path);
    return found;
  };
  EXPECT_THAT(paths(0), ::testing::ElementsAre("model/conv1.weight"));
  EXPECT_THAT(paths(2), ::testing::ElementsAre("model/conv1.bias", "model/fc2.bias"));
  spec.strata.edit<design::BitStrata>().tensors = {"model/conv1.weight", "model/conv9.*"};
  EXPECT_THAT(refusal(spec), ::testing::AllOf(HasSubstr("strata.tensors: "), HasSubstr("'model/conv9.*'"),
                                              HasSubstr("no tensor of role weight or bias")));
  spec.strata.edit<design::BitStrata>().tensors = {"model/conv1.weight", "**/momentum_buffer/**"};
  EXPECT_THAT(refusal(spec), HasSubstr("'**/momentum_buffer/**'"));
  spec.strata.edit<design::BitStrata>().tensors = {"model/conv1.weight", "model/fc2.weight"};
  EXPECT_THAT(refusal(spec),
              ::testing::AllOf(HasSubstr("strata: bias.sign"), HasSubstr("no tensor of this role")));
}

TEST_F(PlanTest, EmptyCellsTooManyDrawsAndOverlapsNameTheirCell) {
  design::CampaignSpec spec = small_spec();
  spec.strata.edit<design::BitStrata>().roles = {"exp_avg"};
  EXPECT_THAT(refusal(spec), HasSubstr("strata: exp_avg.sign"));
  spec = small_spec();
  spec.trials_per_stratum = 43;
  EXPECT_THAT(refusal(spec), ::testing::AllOf(HasSubstr("strata: weight.sign"), HasSubstr("42 bits")));
  spec = small_spec();
  spec.strata.edit<design::BitStrata>().fields = {"exponent", "exponent_msb"};
  EXPECT_THAT(refusal(spec),
              ::testing::AllOf(HasSubstr("weight.exponent and weight.exponent_msb"), HasSubstr("bit 30")));
  spec = small_spec();
  spec.strata.edit<design::BitStrata>().roles = {"weight", "weight"};
  EXPECT_THAT(refusal(spec), HasSubstr("must not overlap"));
}

// Layers as in write_base, in another number format.
void write_converted(const std::filesystem::path& path, const std::string& format, std::uint64_t rows = 4) {
  const std::map<std::string, std::vector<std::uint64_t>> shapes = {
      {"conv1.weight", {2, 1, 3, 3}}, {"conv1.bias", {2}}, {"fc2.weight", {3, 4}}, {"fc2.bias", {3}},
      {"fc10.weight", {rows, 3}},     {"fc10.bias", {4}}};
  std::vector<ckpt::TensorMeta> metas;
  for (const auto& [key, shape] : shapes) {
    metas.push_back({"model/" + key, *number_format(format), shape});
    metas.push_back({"optimizer/momentum_buffer/" + key, *number_format(format), shape});
  }
  ckpt::Writer writer(path, metas, {});
  for (const ckpt::TensorMeta& meta : metas) {
    const std::vector<std::uint8_t> zeros(meta.bytes());
    writer.tensor(meta.path, zeros.data(), meta.bytes());
  }
  writer.commit();
}

void PlanTest::add_base(const std::string& name, const std::string& format) {
  write_converted(folder_ / name, format);
  bases_.emplace_back(folder_ / name);
}

design::CampaignSpec two_files() {
  design::CampaignSpec spec = small_spec();
  spec.arms = {{"fp32", {}}, {"fp16", {}}};
  spec.arms[1].file = 1;
  spec.files = {{0, "", "base"}, {0, "fp16", "base-fp16"}};
  return spec;
}

TEST_F(PlanTest, AFaultHitsTheSamePlaceInEveryBase) {
  design::CampaignSpec spec = two_files();
  spec.strata.edit<design::BitStrata>().fields = {"sign", "exponent_msb"};
  add_base("base-fp16.h5", "float16");
  const Plan plan(spec, base());
  const auto wide = faults_of(plan, "fp32");
  const auto narrow = faults_of(plan, "fp16");
  ASSERT_EQ(wide.size(), narrow.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(wide[i].tensor, narrow[i].tensor);
    EXPECT_EQ(wide[i].element, narrow[i].element);
    EXPECT_EQ(narrow[i].dtype, "float16");
    EXPECT_EQ(wide[i].bits.at(0), wide[i].field == "sign" ? 31U : 30U);
    EXPECT_EQ(narrow[i].bits.at(0), wide[i].field == "sign" ? 15U : 14U);
    EXPECT_EQ(narrow[i].old_pattern, 0U);
  }
  const auto canary = plan.expand({TrialKind::canary, {"fp16", "canary:nan", 0}});
  EXPECT_EQ(inject::whole_tensors(base()[1], canary.whole).sites.front().dtype, "float16");
}

TEST_F(PlanTest, BasesThatDoNotHoldTheSameFaultsAreRefused) {
  design::CampaignSpec spec = two_files();
  add_base("base-fp16.h5", "float16");
  EXPECT_THAT(refusal(spec), ::testing::AllOf(HasSubstr("strata: weight.exponent"), HasSubstr("base.h5"),
                                              HasSubstr("model/conv1.weight with 18 x 8 bits (float32)"),
                                              HasSubstr("18 x 5 bits (float16)")));
}

TEST_F(PlanTest, BasesOfOtherShapesAreRefused) {
  design::CampaignSpec spec = two_files();
  write_converted(folder_ / "other.h5", "float32", 5);
  bases_.emplace_back(folder_ / "other.h5");
  EXPECT_THAT(refusal(spec),
              ::testing::AllOf(HasSubstr("model/fc10.weight with 12 x 1"), HasSubstr("15 x 1 bits")));
}

TEST_F(PlanTest, ModelsMayBeOfEveryKind) {
  design::CampaignSpec spec = small_spec();
  spec.strata = {};
  for (const char* kind : names_of(record::FaultKind{}).words)
    spec.strata.edit<design::ModelStrata>().models.push_back({kind, {}});
  for (design::StratumModel& one : spec.strata.edit<design::ModelStrata>().models) {
    record::FaultModel& model = one.model;
    model.what = parse_named<record::FaultKind>(one.name);
    model.roles = {"weight"};
    model.count = 2;
    if (one.name == "upset") {
      model.ecc = record::Ecc::none;
      model.upset_mode = record::UpsetMode::bit;
    } else {
      model.measure = record::Measure::element;
    }
    if (one.name == "burst") model.length = 3;
    if (one.name == "xor") model.mask = "101";
    if (one.name == "scale") model.factor = -4;
    if (one.name == "set") model.value = "0.5";
  }
  const Plan plan(spec, base());
  const auto patterns = [&](const char* kind) {
    std::set<std::uint64_t> all;
    for (std::uint64_t draw = 0; draw < 9; ++draw) {
      const auto faults = plan.expand({TrialKind::trial, {"serial", kind, draw}}).faults.bits().expanded();
      EXPECT_EQ(faults.size(), 2U) << kind;
      for (const auto& fault : faults) {
        EXPECT_EQ(fault.old_pattern, 0x3f000000U);
        all.insert(fault.new_pattern);
      }
    }
    return all;
  };
  EXPECT_THAT(patterns("scale"), ::testing::ElementsAre(0xc0000000U));
  EXPECT_THAT(patterns("set"), ::testing::ElementsAre(0x3f000000U));
  EXPECT_THAT(patterns("max"), ::testing::ElementsAre(0x7f7fffffU));
  EXPECT_THAT(patterns("xor"), ::testing::ElementsAre(0x3f000005U));
  for (const std::uint64_t pattern : patterns("burst")) EXPECT_EQ(std::popcount(pattern ^ 0x3f000000U), 3);
  EXPECT_GT(patterns("random").size(), 15U);
  EXPECT_GT(patterns("stuck-at-1").size(), 5U);
  design::CampaignSpec wrong = spec;
  wrong.strata.edit<design::ModelStrata>().models[1].model.length.reset();
  EXPECT_THAT(refusal(wrong),
              HasSubstr("strata: burst (role weight, field any): --what burst needs --length"));
}

TEST_F(PlanTest, AModelMayNameItsElement) {
  replace_text(folder_ / "c.json", R"({"name": "c", "seed": 1, "base": {"checkpoint": "base.h5"},
    "arms": [{"name": "serial", "parallel": {"kind": "serial"}}], "trials_per_stratum": 1, "strata": {"models": [
      {"name": "one", "tensors": ["model/fc2.weight"], "element": 7, "bits": "30", "count": 1}]}})");
  design::CampaignSpec spec = design::read_campaign_spec(folder_ / "c.json");
  const Plan plan(spec, base());
  const auto faults = faults_of(plan, "serial");
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].tensor, "model/fc2.weight");
  EXPECT_EQ(faults[0].element, 7U);
  EXPECT_EQ(faults[0].old_pattern ^ faults[0].new_pattern, 0x40000000U);
  const record::Json canonical = design::to_json(spec);
  EXPECT_EQ(
      design::campaign_spec_from_json(canonical).strata.as<design::ModelStrata>()->models[0].model.element,
      7U);
  record::FaultModel& model = spec.strata.edit<design::ModelStrata>().models[0].model;
  model.element = 12;
  EXPECT_THAT(refusal(spec), HasSubstr("strata: one (role any, field 30): "));
  EXPECT_THAT(refusal(spec), HasSubstr("model/fc2.weight has 12 elements"));
  model.tensors = {"model/**"};
  EXPECT_THAT(refusal(spec), HasSubstr("--element 12 needs one tensor"));
}

TEST_F(PlanTest, EveryDrawOfAModelIsASetOfFaultsOfItsOwn) {
  design::CampaignSpec spec = small_spec();
  spec.strata = {};
  spec.strata.edit<design::ModelStrata>().models = {{"ten", {}}, {"rare", {}}, {"zeros", {}}};
  record::FaultModel& ten = spec.strata.edit<design::ModelStrata>().models[0].model;
  ten.roles = {"weight"};
  ten.bits = "mantissa";
  ten.count = 10;
  spec.strata.edit<design::ModelStrata>().models[1].model.ber = 1e-9;
  spec.strata.edit<design::ModelStrata>().models[2].model.what = record::FaultKind::zero;
  spec.strata.edit<design::ModelStrata>().models[2].model.count = 3;
  const Plan plan(spec, base());
  EXPECT_EQ(plan.cells()[0].stratum.bits, record::unbounded_stratum);
  std::set<std::vector<std::uint64_t>> sets;
  for (std::uint64_t draw = 0; draw < 9; ++draw) {
    const auto run = plan.expand({TrialKind::trial, {"serial", "ten", draw}});
    std::size_t bits = 0;
    std::vector<std::uint64_t> elements;
    for (const auto& fault : run.faults.bits().expanded()) {
      bits += fault.bits.size();
      elements.push_back(fault.element);
      EXPECT_EQ(fault.role, "weight");
    }
    EXPECT_EQ(bits, 10U);
    sets.insert(elements);
    EXPECT_EQ(run.faults, plan.expand({TrialKind::trial, {"data-2", "ten", draw}}).faults);
    EXPECT_TRUE(plan.expand({TrialKind::trial, {"serial", "rare", draw}}).faults.empty());
  }
  EXPECT_EQ(sets.size(), 9U);
  for (const auto& fault : plan.expand({TrialKind::trial, {"serial", "zeros", 0}}).faults.bits().expanded()) {
    EXPECT_EQ(fault.new_pattern, 0U);
  }
}

TEST_F(PlanTest, AModelThatAsksForTooMuchIsNamed) {
  design::CampaignSpec spec = small_spec();
  spec.strata = {};
  spec.strata.edit<design::ModelStrata>().models = {{"all", {}}};
  spec.strata.edit<design::ModelStrata>().models[0].model.roles = {"weight"};
  spec.strata.edit<design::ModelStrata>().models[0].model.bits = "sign";
  spec.strata.edit<design::ModelStrata>().models[0].model.count = 43;
  EXPECT_THAT(refusal(spec),
              ::testing::AllOf(HasSubstr("strata: all"), HasSubstr("43"), HasSubstr("42 bits")));
}

TEST_F(PlanTest, UnknownIdsSayWhatThereIs) {
  const design::CampaignSpec spec = small_spec();
  const Plan plan(spec, base());
  const auto refused = [&](const record::TrialId& id) {
    return error_of([&] { static_cast<void>(plan.find(id)); });
  };
  EXPECT_THAT(refused({"gpu", "weight.sign", 0}), HasSubstr("serial, data-2"));
  EXPECT_THAT(refused({"serial", "bias.sign", 0}), HasSubstr("weight.sign, weight.exponent, momentum.sign"));
  EXPECT_THAT(refused({"serial", "weight.sign", 9}), HasSubstr("draws 0 to 8"));
  EXPECT_EQ(refused({"serial", "weight.sign", 8}), "");
}

TEST(TrialIdText, IsTakenApartFromTheRight) {
  EXPECT_EQ(trial_id_from_text("a/weight.3,7/12"), (record::TrialId{"a", "weight.3,7", 12}));
  EXPECT_EQ(trial_id_from_text("a/b/c/0"), (record::TrialId{"a/b", "c", 0}));
  for (const char* text : {"", "a", "a/b", "a/b/", "a/b/x", "a/b/1x", "/b/1", "a//1", "a/b/-1"}) {
    EXPECT_THAT(error_of([&] { static_cast<void>(trial_id_from_text(text)); }), HasSubstr("ARM/STRATUM/DRAW"))
        << text;
  }
}

}  // namespace
}  // namespace bitrift::campaign::plan_test
