// The runs of a plan that come before its trials, and the data orders.
#include <set>

#include <gmock/gmock.h>

#include "campaign/plan/plan.h"
#include "core/philox.h"
#include "design/kind/bit_strata.h"
#include "design/kind/model_strata.h"
#include "record/stratum_name.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::plan_preparation_test {
namespace {

using record::TrialKind;
using ::testing::HasSubstr;
using testing::small_spec;
using testing::TemporaryFolder;
using tests::error_of;

class PreparationTest : public ::testing::Test {
 protected:
  PreparationTest() {
    testing::write_base(folder_ / "base.h5");
    bases_.emplace_back(folder_ / "base.h5");
  }
  [[nodiscard]] const Bases& base() const { return bases_; }

  TemporaryFolder folder_;
  Bases bases_;
};

TEST_F(PreparationTest, CanariesAlterFirstAndLastLayerInNaturalOrder) {
  const design::CampaignSpec spec = small_spec();
  const Plan plan(spec, base());
  const auto nan = plan.expand({TrialKind::canary, {"serial", "canary:nan", 0}});
  EXPECT_TRUE(nan.faults.empty());
  const auto nan_faults = inject::whole_tensors(base().front(), nan.whole).expanded();
  ASSERT_EQ(nan_faults.size(), 18U);
  for (const auto& fault : nan_faults) {
    EXPECT_EQ(fault.tensor, "model/conv1.weight");
    EXPECT_EQ(fault.new_pattern & 0x7fc00000U, 0x7fc00000U);
  }
  EXPECT_EQ(nan.epochs, spec.resume_epochs);
  const auto negate = plan.expand({TrialKind::canary, {"serial", "canary:negate", 0}});
  const auto negated = inject::whole_tensors(base().front(), negate.whole).expanded();
  ASSERT_EQ(negated.size(), 4U + 12);
  for (const auto& fault : negated) {
    EXPECT_THAT(fault.tensor, HasSubstr("fc10"));
    EXPECT_EQ(fault.new_pattern, 0xbf000000U);
  }
  EXPECT_EQ(negate.epochs, 0);
  const auto none = plan.expand({TrialKind::canary, {"serial", "canary:none", 0}});
  EXPECT_TRUE(none.faults.empty() && none.whole.empty());
}

TEST_F(PreparationTest, PreparationEndsWithAControlBehindTheCanaries) {
  const design::CampaignSpec spec = small_spec();
  const Plan plan(spec, base());
  const auto chains = plan.preparation("data-2");
  ASSERT_EQ(chains.size(), 2U + 1 + 20 + 4 + 4 + 1);
  std::vector<std::string> last;
  for (const RunKey& key : chains.back()) last.push_back(key.id.text());
  EXPECT_THAT(last, ::testing::ElementsAre("data-2/canary:nan/0", "data-2/canary:negate/0",
                                           "data-2/canary:reads-momentum/0", "data-2/canary:reads-weight/0",
                                           "data-2/canary:none/0", "data-2/control/2"));
  EXPECT_EQ(plan.expand(plan.find({"data-2", "control:zero", 0})).epochs, 0);
}

TEST_F(PreparationTest, ReaderCanarySetsAllTargetedTensorsOfItsRoleToNan) {
  design::CampaignSpec spec = small_spec();
  spec.strata.edit<design::BitStrata>().tensors = {"**/conv1.*"};
  const auto whole = [&](const Plan& plan, const std::string& stratum) {
    return plan.expand(plan.find({"serial", stratum, 0})).whole;
  };
  const record::WholeTensor weight{"model/conv1.weight", record::WholeChange::nan};
  {
    const Plan plan(spec, base());
    EXPECT_THAT(whole(plan, "canary:reads-weight"), ::testing::ElementsAre(weight));
    EXPECT_THAT(
        whole(plan, "canary:reads-momentum"),
        ::testing::Each(::testing::Field(&record::WholeTensor::tensor, HasSubstr("momentum_buffer/conv1"))));
    EXPECT_EQ(plan.expand(plan.find({"serial", "canary:reads-weight", 0})).epochs, spec.resume_epochs);
  }
  spec.strata = {};
  record::FaultModel model;
  model.roles = {"bias"};
  model.count = 1;
  spec.strata.edit<design::ModelStrata>().models = {{"biases", model}};
  const Plan models(spec, base());
  EXPECT_THAT(whole(models, "canary:reads-bias"),
              ::testing::Each(::testing::Field(&record::WholeTensor::tensor, HasSubstr(".bias"))));
  spec.reader_canaries.reset();
  const Plan before(spec, base());
  EXPECT_EQ(before.preparation("serial").back().size(), 4U);
}

TEST_F(PreparationTest, EnvelopeRunsHaveTheSameOrderSeedsInEveryArm) {
  const design::CampaignSpec spec = small_spec();
  const Plan plan(spec, base());
  std::set<std::uint64_t> seeds;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto serial = plan.expand(plan.find({"serial", "envelope", i}));
    EXPECT_EQ(serial.order_seed, plan.expand(plan.find({"data-2", "envelope", i})).order_seed);
    EXPECT_EQ(serial.order_seed, random_u64(derive_key(42, "envelope"), i, 0));
    seeds.insert(*serial.order_seed);
  }
  EXPECT_EQ(seeds.size(), 20U);
}

TEST_F(PreparationTest, HeldOutRunsHaveOrderSeedsThatNoOtherRunHas) {
  design::CampaignSpec spec = small_spec();
  spec.orders = 3;
  const Plan plan(spec, base());
  std::set<std::uint64_t> seeds;
  for (std::uint64_t i = 0; i < 20; ++i)
    seeds.insert(plan.expand(plan.find({"serial", "envelope", i})).order_seed.value());
  for (const int order : {1, 2})
    seeds.insert(plan.expand(plan.find({"serial", record::control_stratum(order), 0})).order_seed.value());
  for (std::uint64_t i = 0; i < 4; ++i) {
    const record::TrialSpec run = plan.expand(plan.find({"serial", "held_out", i}));
    EXPECT_EQ(run.kind, TrialKind::held_out);
    EXPECT_EQ(run.order_seed, random_u64(derive_key(42, "held_out"), i, 0));
    EXPECT_EQ(run.order_seed, plan.expand(plan.find({"data-2", "held_out", i})).order_seed);
    EXPECT_EQ(run.order, 0);
    EXPECT_EQ(run.epochs, spec.resume_epochs);
    EXPECT_TRUE(run.faults.empty());
    seeds.insert(*run.order_seed);
  }
  EXPECT_EQ(seeds.size(), 20U + 2 + 4);
  EXPECT_NE(error_of([&] { static_cast<void>(plan.find({"serial", "held_out", 4})); }), "");
}

TEST_F(PreparationTest, JitterRunFlipsTheLowestBitsOfSixteenWeightsAlikeInEveryArm) {
  design::CampaignSpec spec = small_spec();
  spec.arms[1].scope.count = 1;
  const Plan plan(spec, base());
  std::set<std::vector<std::pair<std::string, std::uint64_t>>> sets;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const RunKey key = plan.find({"serial", "jitter", i});
    const record::TrialSpec run = plan.expand(key);
    EXPECT_EQ(run.kind, TrialKind::jitter);
    EXPECT_EQ(run.epochs, spec.resume_epochs);
    EXPECT_FALSE(run.order_seed);
    EXPECT_EQ(plan.stratum_bits(key), 0U);
    std::vector<std::pair<std::string, std::uint64_t>> places;
    for (const record::AppliedFault& fault : run.faults.bits().expanded()) {
      EXPECT_TRUE(fault.tensor.starts_with("model/") && fault.tensor.ends_with(".weight")) << fault.tensor;
      EXPECT_EQ(fault.bits, std::vector<unsigned>{0});
      EXPECT_EQ(fault.new_pattern, fault.old_pattern ^ 1U);
      places.emplace_back(fault.tensor, fault.element);
    }
    EXPECT_EQ(std::set(places.begin(), places.end()).size(), 16U);
    sets.insert(places);
    const record::TrialSpec other = plan.expand(plan.find({"data-2", "jitter", i}));
    EXPECT_EQ(other.faults, run.faults);
    EXPECT_TRUE(run.replicas.empty());
    EXPECT_EQ(other.replicas.size(), 1U);
  }
  EXPECT_EQ(sets.size(), 4U);
}

TEST_F(PreparationTest, BaseWithFewerWeightsIsJitteredInAllOfThem) {
  const std::vector<float> values(5, 0.5F);
  const ckpt::TensorMeta meta{"model/fc.weight", *number_format("float32"), {5}};
  ckpt::Writer writer(folder_ / "five.h5", {meta}, {});
  writer.tensor(meta.path, values.data(), meta.bytes());
  writer.commit();
  Bases bases;
  bases.emplace_back(folder_ / "five.h5");
  design::CampaignSpec spec = small_spec();
  spec.strata.edit<design::BitStrata>().roles = {"weight"};
  spec.trials_per_stratum = 1;
  const Plan plan(spec, bases);
  std::vector<std::uint64_t> elements;
  const record::TrialSpec run = plan.expand(plan.find({"serial", "jitter", 0}));
  for (const auto& fault : run.faults.bits().changes) elements.push_back(fault.element);
  EXPECT_THAT(elements, ::testing::ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(PreparationTest, DrawsTakeTurnsInTheGoldenOrdersEachWithItsNoFlipRuns) {
  design::CampaignSpec spec = small_spec();
  spec.orders = 3;
  const Plan plan(spec, base());
  const auto seed_of = [](int order) {
    return order == 0
               ? std::nullopt
               : std::optional(random_u64(derive_key(42, "order"), static_cast<std::uint64_t>(order), 0));
  };
  std::vector<RunKey> keys = plan.trials("serial");
  for (std::uint64_t i = 0; i < 4; ++i) keys.push_back({TrialKind::jitter, {"serial", "jitter", i}});
  ASSERT_EQ(keys.size(), 4U * 9 + 4);
  for (const RunKey& key : keys) {
    const record::TrialSpec run = plan.expand(key);
    EXPECT_EQ(run.order, static_cast<int>(key.id.draw % 3)) << key.id.text();
    EXPECT_EQ(run.order_seed, seed_of(run.order)) << key.id.text();
  }
  std::vector<std::string> golden;
  for (const auto& chain : plan.preparation("serial")) {
    for (const RunKey& key : chain) {
      if (!is_golden_run(key)) continue;
      golden.push_back(key.id.text());
      const record::TrialSpec run = plan.expand(plan.find(key.id));
      EXPECT_EQ(run.kind, TrialKind::control);
      EXPECT_EQ(run.order_seed, seed_of(run.order));
      EXPECT_EQ(record::control_stratum(run.order), key.id.stratum);
      EXPECT_TRUE(run.faults.empty());
    }
  }
  EXPECT_THAT(golden,
              ::testing::ElementsAre("serial/control/0", "serial/control/1", "serial/control:order-1/0",
                                     "serial/control:order-1/1", "serial/control:order-2/0",
                                     "serial/control:order-2/1", "serial/control/2"));
}

}  // namespace
}  // namespace bitrift::campaign::plan_preparation_test
