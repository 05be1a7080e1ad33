// A kind of fault that only this test knows, as CONTRIBUTING.md ("How to add a kind of fault") describes it:
// plan, canaries, sentences and tables need nothing else.
#include <set>

#include <gmock/gmock.h>

#include "analyze/verdict/canaries.h"
#include "analyze/verdict/controls.h"
#include "analyze/views/dimension.h"
#include "campaign/plan/fault_sentences.h"
#include "campaign/plan/plan.h"
#include "core/permutation.h"
#include "core/philox.h"
#include "inject/draw/fault_plan.h"
#include "support.h"
#include "tests_support.h"

namespace bitrift::campaign::own_kind_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::error_of;

// The sign bits of two neighbours in a row-major tensor flip.
class PairPopulation final : public design::ListedPopulation {
 public:
  PairPopulation(const std::string& role, const design::Setting& setting)
      : bases_(setting.bases), bits_(bases_.front(), {}, {role}, "sign") {}
  [[nodiscard]] std::uint64_t size() const override { return bits_.bits() - 1; }
  [[nodiscard]] record::Faults member(std::uint64_t index, std::size_t base) const override {
    return record::compact({inject::flip_at(bases_.at(base), bits_.locate(index)),
                            inject::flip_at(bases_.at(base), bits_.locate(index + 1))});
  }

 private:
  const std::vector<ckpt::Reader>& bases_;
  inject::Population bits_;
};

struct PairStrata final : design::Kind {
  explicit PairStrata(std::vector<std::string> roles) : roles(std::move(roles)) {}
  std::vector<std::string> roles;

  [[nodiscard]] record::Json to_json() const override { return {{"pairs", roles}}; }
  [[nodiscard]] std::vector<record::Stratum> strata() const override {
    std::vector<record::Stratum> list;
    for (const std::string& role : roles) list.push_back({"pair." + role, role, "sign", 0});
    return list;
  }
  void check(const record::Document&, const std::vector<record::Parallel>&,
             const std::vector<record::RecoverySpec>&) const override {}
  [[nodiscard]] std::unique_ptr<const design::Population> population(
      std::size_t index, const design::Setting& setting) const override {
    return std::make_unique<PairPopulation>(roles.at(index), setting);
  }
  [[nodiscard]] const char* members() const override { return "pairs"; }
  [[nodiscard]] bool alters_file() const override { return true; }
  [[nodiscard]] std::vector<design::Canary> canaries(const record::RecoverySpec&) const override {
    return {{"canary:no-pair", "no pair is flipped", design::Required::bitwise}};
  }
  void plant(const std::string&, const design::Setting&, const record::RecoverySpec&,
             record::TrialSpec& run) const override {
    run.epochs = 1;
  }
  [[nodiscard]] design::Sentences sentences(const std::optional<std::uint64_t>& size) const override {
    design::Sentences said;
    said.faults[""] = "a flip of a pair, chosen from " + design::size_text(size) + "pairs";
    said.rates = design::rate_of_uniform("pair", "pairs");
    said.limits = {"The rates are those of pairs."};
    said.no_map = "A pair has no bit of its own.";
    return said;
  }
  [[nodiscard]] std::string no_rates_by(const std::string&) const override { return "pairs are flipped"; }
  [[nodiscard]] const char* averaged_over() const override { return "pairs"; }
};

class OwnKind : public ::testing::Test {
 protected:
  OwnKind() {
    testing::write_base(folder_ / "base.h5");
    bases_.emplace_back(folder_ / "base.h5");
    spec_ = testing::small_spec();
    spec_.strata = PairStrata({"weight", "bias"});
    spec_.trials_per_stratum = 5;
  }
  testing::TemporaryFolder folder_;
  Bases bases_;
  design::CampaignSpec spec_;
};

TEST_F(OwnKind, IsDrawnInEveryArmWithoutReplacement) {
  const Plan plan(spec_, bases_);
  ASSERT_EQ(plan.cells().size(), 2U);
  EXPECT_EQ(plan.cells()[1].stratum.bits, 2U + 3U + 4U - 1U);
  std::set<std::string> pairs;
  for (std::uint64_t draw = 0; draw < 5; ++draw) {
    const auto run = plan.expand({record::TrialKind::trial, {"serial", "pair.bias", draw}});
    ASSERT_EQ(run.faults.size(), 2U);
    EXPECT_TRUE(pairs.insert(record::described(run.faults, 2)).second);
    EXPECT_EQ(plan.expand({record::TrialKind::trial, {"data-2", "pair.bias", draw}}).faults, run.faults);
  }
  spec_.trials_per_stratum = 9;
  EXPECT_THAT(
      error_of([&] { const Plan refused(spec_, bases_); }),
      HasSubstr("pair.bias (role bias, field sign): it holds 8 pairs, but trials_per_stratum needs 9"));
}

TEST_F(OwnKind, HasItsCanaries) {
  const Plan plan(spec_, bases_);
  const RunKey key = plan.find({"serial", "canary:no-pair", 0});
  EXPECT_EQ(key.kind, record::TrialKind::canary);
  EXPECT_TRUE(plan.expand(key).whole.empty());
  const auto checks = analyze::canary_checks({}, {"serial"}, {}, analyze::judging_of(spec_));
  EXPECT_EQ(checks.back().stratum, "canary:no-pair");
  EXPECT_EQ(checks.back().required, "masked (bitwise)");
}

TEST_F(OwnKind, IsTold) {
  const FaultSentences said = fault_sentences(spec_, Plan(spec_, bases_).rounds(), {});
  EXPECT_THAT(said.faults.at(""), HasSubstr(" pairs"));
  EXPECT_THAT(said.limits, Contains("The rates are those of pairs."));
  EXPECT_THAT(error_of([&] { (void)analyze::dimensions({"layer"}, spec_); }),
              HasSubstr("--by layer: pairs are flipped"));
  EXPECT_THAT(analyze::dimensions({"role"}, spec_),
              ElementsAre(analyze::Dimension::strategy, analyze::Dimension::role));
  EXPECT_EQ(design::to_json(spec_).at("strata"), (record::Json{{"pairs", {"weight", "bias"}}}));
}

}  // namespace
}  // namespace bitrift::campaign::own_kind_test
