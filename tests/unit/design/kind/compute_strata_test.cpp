#include "design/kind/run/compute_strata.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>

#include "design/campaign_spec.h"
#include "tests_support.h"
#include "unit/places.h"

namespace bitrift::design::compute_test {
namespace {

using record::ComputeFault;
using record::ComputeMap;
using record::ComputeSite;
using ::testing::Contains;
using ::testing::HasSubstr;
using tests::error_of;

constexpr std::int64_t epochs = 2;
const std::filesystem::path shipped =
    std::filesystem::path(bitrift::testing::source_dir) / "campaigns/compute/lenet.json";

ComputePatterns fields(const std::vector<std::string>& names) {
  ComputePatterns patterns;
  for (const std::string& name : names) patterns.list.push_back({.name = name, .field = name});
  return patterns;
}

// The population of one field, with the other settings of the first pattern.
ComputePopulation population_of(ComputeSite site, const std::string& field, const ComputeStrata& compute) {
  ComputePattern pattern = compute.patterns.list.front();
  pattern.field = field;
  return {site, pattern, compute, epochs};
}

// The output of the first layer has no gradient, and that of the second has another format.
ComputeStrata strata() {
  ComputeStrata compute;
  compute.patterns = fields({"sign", "exponent", "mantissa"});
  compute.computations =
      ComputeMap{.steps_per_epoch = 3,
                 .replicas = 2,
                 .layers = {{"flat", 4, "float32", false, 2}, {"fc", 3, "bfloat16", true, 3}},
                 .parameters = {{"fc.weight", 5, "float32"}, {"fc.bias", 2, "float32"}}};
  return compute;
}

using Key = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, std::int64_t, int>;

TEST(ComputePopulation, HoldsEveryBitOfEveryNumberOnce) {
  const ComputeStrata compute = strata();
  for (const ComputeSite site : compute.sites) {
    std::set<Key> found, expected;
    for (const std::string field : {"sign", "exponent", "mantissa"}) {
      const ComputePopulation population = population_of(site, field, compute);
      std::map<std::pair<std::string, int>, std::uint64_t> counted, stated;
      for (const TensorMembers& one : population.computed()) {
        EXPECT_EQ(one.layer, one.tensor.substr(0, one.tensor.find('.')));
        for (const unsigned bit : one.bits) stated[{one.tensor, static_cast<int>(bit)}] = one.each;
      }
      for (std::uint64_t i = 0; i < population.size(); ++i) {
        const ComputeFault fault = population.at(i);
        ++counted[{fault.tensor, fault.bit}];
        EXPECT_EQ(fault.site, site);
        EXPECT_TRUE(found
                        .insert({fault.tensor, fault.step, fault.replica, fault.micro_batch, fault.element,
                                 fault.bit})
                        .second);
      }
      EXPECT_EQ(counted, stated) << name_of(site) << "." << field;
    }
    for (const ComputeMap::Tensor& tensor : compute.computations->at(site)) {
      for (std::int64_t step = 1; step <= 6; ++step) {
        for (std::int64_t replica = 0; replica < 2; ++replica) {
          for (std::int64_t micro = 0; micro < tensor.passes; ++micro) {
            for (std::int64_t element = 0; element < tensor.elements; ++element) {
              for (int bit = 0; bit < (tensor.dtype == "bfloat16" ? 16 : 32); ++bit)
                expected.insert({tensor.name, step, replica, micro, element, bit});
            }
          }
        }
      }
    }
    EXPECT_EQ(found, expected) << name_of(site);
  }
}

// The chi-square statistic of 20,000 draws in 84 equal cells has mean 83 and variance 166.
TEST(ComputePopulation, IsDrawnUniformly) {
  const ComputePopulation population = population_of(ComputeSite::weight_gradient, "sign", strata());
  ASSERT_EQ(population.size(), 7U * 2U * 6U);
  constexpr int campaigns = 20000;
  std::array<int, 84> counts = {};
  std::set<std::string> members;
  for (std::uint64_t i = 0; i < population.size(); ++i) members.insert(to_text(population.at(i)));
  for (int key = 0; key < campaigns; ++key) {
    const record::Faults drawn = population.draw(static_cast<std::uint64_t>(key), 0, 0);
    const auto at = members.find(to_text(drawn.computed().front()));
    ASSERT_NE(at, members.end());
    ++counts[static_cast<std::size_t>(std::distance(members.begin(), at))];
  }
  double chi_square = 0;
  constexpr double expected = campaigns / 84.0;
  for (const int count : counts) chi_square += (count - expected) * (count - expected) / expected;
  EXPECT_LT(std::abs(chi_square - 83), 4 * std::sqrt(2 * 83.0));
}

TEST(ComputePopulation, IsOfTheTensorsAndStepsThatAreNamed) {
  ComputeStrata compute = strata();
  compute.steps = StepRange{2, 3};
  compute.tensors = {"*.bias", "fc"};
  compute.lasting = 0;
  compute.patterns.list.front().elements = 2;
  const ComputePopulation population = population_of(ComputeSite::update, "sign", compute);
  ASSERT_EQ(population.size(), 2U * 2U * 2U);
  for (std::uint64_t i = 0; i < population.size(); ++i) {
    const ComputeFault fault = population.at(i);
    EXPECT_EQ(fault.tensor, "fc.bias");
    EXPECT_TRUE(fault.step == 2 || fault.step == 3);
    EXPECT_EQ(fault.lasting, 0);
    EXPECT_EQ(fault.elements, 2);
  }
}

// An epoch has 3 steps, of which the last one is short.
TEST(ComputePopulation, BeginsInNoShortStep) {
  ComputeStrata compute = strata();
  compute.computations->short_steps = 1;
  const auto steps_of = [&] {
    const ComputePopulation population = population_of(ComputeSite::update, "sign", compute);
    std::map<std::int64_t, int> steps;
    for (std::uint64_t i = 0; i < population.size(); ++i) ++steps[population.at(i).step];
    return steps;
  };
  constexpr int places = 7 * 2;  // elements and replicas
  EXPECT_EQ(steps_of(), (std::map<std::int64_t, int>{{1, places}, {2, places}, {4, places}, {5, places}}));
  compute.steps = StepRange{2, 4};
  EXPECT_EQ(steps_of(), (std::map<std::int64_t, int>{{2, places}, {4, places}}));
  compute.steps = StepRange{3, 3};
  EXPECT_THAT(error_of([&] { steps_of(); }), HasSubstr("whose batches are smaller"));
  const record::Parallel parallel;
  const std::vector<ckpt::Reader> no_bases;
  record::TrialSpec run;
  compute.plant("canary:compute-update", {no_bases, parallel, epochs}, {}, run);
  EXPECT_EQ(run.faults.computed().front().step, 2);
}

TEST(ComputePopulation, FrozenParametersHaveNoGradientAndNoUpdate) {
  ComputeStrata compute = strata();
  compute.computations->parameters.push_back(
      {.name = "base", .elements = 100, .dtype = "float32", .trained = false});
  const auto size = [&](ComputeSite site) { return population_of(site, "sign", compute).size(); };
  EXPECT_EQ(size(ComputeSite::update), 7U * 2U * 6U);
  EXPECT_EQ(size(ComputeSite::weight_gradient), 7U * 2U * 6U);
  EXPECT_EQ(size(ComputeSite::parameter), 107U * 2U * 6U);
  compute.paired = true;
  EXPECT_EQ(size(ComputeSite::parameter), 7U * 2U * 6U);
  compute.sites = {ComputeSite::parameter};
  const record::Parallel parallel;
  const std::vector<ckpt::Reader> no_bases;
  record::TrialSpec run;
  compute.plant("canary:compute-parameter", {no_bases, parallel, epochs}, {}, run);
  EXPECT_EQ(run.faults.computed().front().tensor, "fc.bias");
  const record::Json value = to_json(*compute.computations);
  EXPECT_EQ(value["parameters"][2]["trained"], false);
  EXPECT_FALSE(value["parameters"][0].contains("trained"));
  EXPECT_EQ(record::compute_map_from_json(value), *compute.computations);
}

std::string refusal(ComputeSite site, const std::string& field, const ComputeStrata& compute) {
  return error_of([&] { (void)population_of(site, field, compute); });
}

TEST(ComputePopulation, RandomElementsAndBitsAreDistinctAndSpread) {
  ComputeStrata compute = strata();
  compute.tensors = {"wide"};
  compute.computations->parameters.push_back({"wide", 16, "float32"});
  compute.patterns.list.front().elements = 3;
  compute.patterns.list.front().scattered = true;
  compute.patterns.list.front().bits = 4;
  const ComputePopulation population = population_of(ComputeSite::update, "31,30", compute);
  std::map<std::int64_t, int> elements;
  std::map<int, int> bits;
  for (std::uint64_t index = 0; index < population.size(); ++index) {
    const std::vector<ComputeFault> group = population.member(index, 0).computed();
    ASSERT_EQ(group.size(), 12U);
    ASSERT_EQ(group, population.member(index, 0).computed());
    EXPECT_EQ(group.front().element, population.at(index).element);
    EXPECT_EQ(group.front().bit, population.at(index).bit);
    std::map<std::int64_t, std::set<int>> struck;
    for (const ComputeFault& fault : group) {
      EXPECT_EQ(std::tuple(fault.step, fault.replica, fault.elements, fault.stride),
                std::tuple(group.front().step, group.front().replica, std::int64_t{1}, std::int64_t{1}));
      struck[fault.element].insert(fault.bit);
      elements[fault.element] += 1;
      if (fault.element != group.front().element) bits[fault.bit] += 1;
    }
    EXPECT_EQ(struck.size(), 3U);
    for (const auto& [element, flipped] : struck) EXPECT_EQ(flipped.size(), 4U);
  }
  // 384 groups: 16 elements x 2 first bits x 6 steps x 2 replicas. An element is in 3/16 of them, 72 on
  // average with a standard deviation of at most 7.7, each time with four bits; a bit is in 1/8 of the 768
  // elements that are not the first of their group, 96 with 9.2. The bounds are five standard deviations.
  ASSERT_EQ(population.size(), 384U);
  EXPECT_EQ(elements.size(), 16U);
  for (const auto& [element, count] : elements) EXPECT_NEAR(count, 4 * 72, 4 * 5 * 7.7) << element;
  EXPECT_EQ(bits.size(), 32U);
  for (const auto& [bit, count] : bits) EXPECT_NEAR(count, 96, 5 * 9.2) << bit;
}

TEST(ComputePopulation, AdjacentBitsAreTheSameInNeighbouringElements) {
  for (const bool scattered : {false, true}) {
    ComputeStrata compute = strata();
    compute.tensors = {"fc"};
    ComputePattern& pattern = compute.patterns.list.front();
    pattern.elements = 2;
    pattern.bits = 3;
    pattern.adjacent = true;
    pattern.scattered = scattered;
    const ComputePopulation population = population_of(ComputeSite::activation, "any", compute);
    std::map<std::set<int>, int> drawn;
    for (std::uint64_t index = 0; index < population.size(); ++index) {
      const ComputeFault first = population.at(index);
      const std::vector<ComputeFault> group = population.member(index, 0).computed();
      ASSERT_EQ(group.size(), scattered ? 6U : 3U);
      std::map<std::int64_t, std::set<int>> struck;
      for (const ComputeFault& fault : group) {
        EXPECT_EQ(fault.elements, scattered ? 1 : 2);
        EXPECT_EQ(fault.stride, 1);
        struck[fault.element].insert(fault.bit);
      }
      ASSERT_EQ(struck.size(), scattered ? 2U : 1U);
      ASSERT_TRUE(struck.contains(first.element));
      for (const auto& [element, bits] : struck) {
        EXPECT_EQ(bits, struck.begin()->second);
        EXPECT_TRUE(bits.contains(first.bit));
        EXPECT_EQ(*bits.rbegin() - *bits.begin(), 2);
      }
      ++drawn[struck.begin()->second];
    }
    // 16 bits hold 14 groups of three; the highest one is also that of the two highest bits.
    ASSERT_EQ(drawn.size(), 14U);
    for (const auto& [bits, count] : drawn)
      EXPECT_EQ(count, drawn.begin()->second * (bits.contains(15) ? 3 : 1));
  }
}

TEST(ComputePopulation, OneBitInScatteredElementsIsTheSameBit) {
  ComputeStrata compute = strata();
  compute.tensors = {"fc"};
  compute.patterns.list.front().elements = 3;
  compute.patterns.list.front().scattered = true;
  const ComputePopulation population = population_of(ComputeSite::activation, "sign", compute);
  for (std::uint64_t index = 0; index < population.size(); ++index) {
    std::set<std::int64_t> elements;
    for (const ComputeFault& fault : population.member(index, 0).computed()) {
      EXPECT_EQ(fault.bit, 15);
      elements.insert(fault.element);
    }
    EXPECT_EQ(elements, (std::set<std::int64_t>{0, 1, 2}));
  }
}

TEST(ComputePopulation, WholeNumbersAreElements) {
  ComputeStrata compute = strata();
  compute.patterns.list = {{.name = "nan", .effect = record::ComputeEffect::nan}};
  ASSERT_EQ(compute.strata().size(), 4U);
  EXPECT_EQ(compute.strata()[1].name, "gradient.nan");
  const ComputePopulation population = population_of(ComputeSite::gradient, "nan", compute);
  EXPECT_EQ(population.size(), 3U * 3U * 2U * 6U);
  std::set<std::string> seen;
  for (std::uint64_t index = 0; index < population.size(); ++index) {
    const ComputeFault fault = population.at(index);
    EXPECT_EQ(std::pair(fault.bit, fault.effect), std::pair(0, record::ComputeEffect::nan));
    seen.insert(to_text(fault));
  }
  EXPECT_EQ(seen.size(), population.size());
  EXPECT_THAT(compute.sentences(std::nullopt).faults.at(""),
              HasSubstr("a number that becomes NaN while it is computed, chosen uniformly from all numbers"));
  EXPECT_THAT(compute.no_rates_by("bit"), HasSubstr("they have no bit"));
  EXPECT_EQ(compute.no_rates_by("layer"), "");
}

// Three in four numbers become 0, and one in four has two of its exponent bits flipped.
ComputeStrata mixture() {
  ComputeStrata compute = strata();
  compute.patterns.list = {
      {.name = "zero", .weight = 30, .effect = record::ComputeEffect::zero},
      {.name = "two", .field = "exponent", .weight = 10, .bits = 2},
  };
  return compute;
}

TEST(ComputeMixture, CountsEveryNumberByTheWeightOfThePattern) {
  const ComputeStrata compute = mixture();
  std::uint64_t sizes = 0;
  for (const ComputeSite site : compute.sites) {
    std::vector<std::uint64_t> each;
    for (const ComputePattern& pattern : compute.patterns.list) {
      const ComputePopulation population(site, pattern, compute, epochs);
      std::map<std::string, std::uint64_t> counted, stated;
      std::map<Key, std::uint64_t> times;
      for (const TensorMembers& one : population.computed()) {
        EXPECT_TRUE(one.bits.empty());
        stated[one.tensor] = one.each;
      }
      for (std::uint64_t i = 0; i < population.size(); ++i) {
        const ComputeFault fault = population.at(i);
        ++counted[fault.tensor];
        ++times[{fault.tensor, fault.step, fault.replica, fault.micro_batch, fault.element, 0}];
      }
      EXPECT_EQ(counted, stated);
      for (const auto& [number, count] : times) EXPECT_EQ(count, pattern.weight / 10);
      each.push_back(times.size());
      sizes += population.size();
    }
    EXPECT_EQ(each.front(), each.back());
  }
  // Numbers of a step: 4 x 2 + 3 x 3 outputs, 3 x 3 gradients of outputs, and twice 7 of parameters.
  EXPECT_EQ(sizes, 4U * (17U + 9U + 2U * 7U) * 2U * 6U);
}

TEST(ComputeMixture, DrawsItsBitsFromTheField) {
  ComputeStrata compute = mixture();
  compute.computations->parameters = {{"fc.weight", 500, "float32"}};
  const ComputePattern& two = compute.patterns.list.back();
  const ComputePopulation population(ComputeSite::update, two, compute, epochs);
  std::map<int, int> first, second;
  for (std::uint64_t index = 0; index < population.size(); ++index) {
    const std::vector<ComputeFault> group = population.member(index, 0).computed();
    ASSERT_EQ(group.size(), 2U);
    EXPECT_EQ(group[0], population.at(index));
    EXPECT_EQ(group[0].element, group[1].element);
    EXPECT_NE(group[0].bit, group[1].bit);
    ++first[group[0].bit];
    ++second[group[1].bit];
  }
  // Of 6,000 members, each of the 8 bits of the field is the first one in 750 on average (standard deviation
  // 26), and each other bit of the number the second one in 1/31: in 194 (14), or in 7/8 of that if it may be
  // the first one, too. The bounds are five standard deviations.
  ASSERT_EQ(population.size(), 6000U);
  ASSERT_EQ(first.size(), 8U);
  for (const auto& [bit, count] : first) {
    EXPECT_THAT(bit, ::testing::AllOf(::testing::Ge(23), ::testing::Le(30)));
    EXPECT_NEAR(count, 750, 5 * 26);
  }
  ASSERT_EQ(second.size(), 32U);
  for (const auto& [bit, count] : second)
    EXPECT_NEAR(count, bit >= 23 && bit <= 30 ? 169 : 194, 5 * 14) << bit;
}

TEST(ComputeMixture, RefusesAFieldThatATensorLacks) {
  ComputeStrata compute = mixture();
  compute.patterns.list.back().field = "20";
  EXPECT_THAT(error_of([&] {
                ComputePopulation(ComputeSite::activation, compute.patterns.list.back(), compute, epochs);
              }),
              HasSubstr("no number of fc has a bit of the field 20"));
}

TEST(ComputeMixture, SaysItsSharesAndItsSource) {
  ComputeStrata compute = mixture();
  compute.patterns.source = "a beam experiment";
  const Sentences said = compute.sentences(4321);
  EXPECT_THAT(
      said.faults.at(""),
      HasSubstr("an error in a number while it is computed, chosen uniformly from all numbers, with a "
                "pattern drawn by its weight (zero 75 %, two 25 %), among outputs of layers"));
  EXPECT_THAT(said.faults.at(""), Not(HasSubstr("4,321")));
  EXPECT_THAT(said.limits, Contains("The patterns and their weights are from a beam experiment."));
  EXPECT_THAT(said.rates, HasSubstr("with a pattern drawn by its weight"));
  EXPECT_THAT(compute.no_rates_by("bit"), HasSubstr("group by field"));
  EXPECT_EQ(compute.no_rates_by("layer"), "");
}

TEST(ComputeMixture, GpuGatesHasThePublishedShares) {
  const ComputePatterns patterns = patterns_of(FaultLibrary::gpu_gates);
  std::map<std::string, double> shares;
  double all = 0;
  for (const ComputePattern& pattern : patterns.list) {
    shares[pattern.name] = static_cast<double>(pattern.weight);
    all += shares[pattern.name];
  }
  EXPECT_NEAR(shares["zero"] / all, 0.5068, 1e-4);
  const double flips = shares["one-bit"] + shares["four-bits"];
  EXPECT_NEAR(flips / all, 0.4831, 1e-4);
  EXPECT_NEAR(shares["one-bit"] / flips, 0.4, 1e-4);
  EXPECT_NEAR((shares["nan"] + shares["inf"]) / all, 0.0101, 1e-4);
  EXPECT_THAT(patterns.source, HasSubstr("arXiv 2605.04213"));
}

TEST(ComputePopulation, RefusesMoreBitsThanANumberHas) {
  ComputeStrata compute = strata();
  compute.patterns.list.front().bits = 17;
  EXPECT_THAT(refusal(ComputeSite::activation, "sign", compute),
              HasSubstr("is to flip 17 bits, but a number of fc has 16"));
}

TEST(ComputePopulation, RefusesWhatIsNotComputed) {
  ComputeStrata compute = strata();
  EXPECT_THAT(refusal(ComputeSite::activation, "40-41", compute),
              HasSubstr("no number there has such a bit"));
  compute.steps = StepRange{1, 7};
  EXPECT_THAT(refusal(ComputeSite::update, "sign", compute), HasSubstr("names step 7, but a run takes 6"));
  compute = strata();
  compute.tensors = {"flat"};
  EXPECT_THAT(refusal(ComputeSite::gradient, "sign", compute), HasSubstr("names none of its layers: fc"));
  compute.tensors = {};
  compute.computations->layers.pop_back();
  EXPECT_THAT(
      refusal(ComputeSite::gradient, "sign", compute),
      HasSubstr("a step has no gradients of outputs of layers that can be struck; leave 'gradient' out"));
  compute.patterns.list.front().elements = 3;
  EXPECT_THAT(refusal(ComputeSite::update, "sign", compute), HasSubstr("but fc.bias has 2"));
  compute.patterns.list.front().elements = 2;
  compute.patterns.list.front().stride = 2;  // the first of two elements again, whose bit would flip back
  EXPECT_THAT(refusal(ComputeSite::update, "sign", compute), HasSubstr("fc.bias has 1 that are 2 apart"));
  compute = strata();
  compute.computations->may_skip = true;
  EXPECT_THAT(refusal(ComputeSite::update, "sign", compute), HasSubstr("may leave out an update"));
  EXPECT_EQ(population_of(ComputeSite::gradient, "sign", compute).size(), 3U * 3U * 2U * 6U);
  compute.computations->parameters.front().elements = std::int64_t{1} << 55;
  EXPECT_THAT(refusal(ComputeSite::weight_gradient, "sign", compute), HasSubstr("more than 2^53 bits"));
  compute.computations.reset();
  EXPECT_THAT(refusal(ComputeSite::gradient, "sign", compute), HasSubstr("before the campaign has begun"));
}

TEST(ComputeCanaries, StrikeTheLastTensorOfEverySite) {
  const record::Parallel parallel;
  const std::vector<ckpt::Reader> no_bases;
  const ComputeStrata compute = strata();
  std::vector<std::string> faults;
  for (const Canary& canary : compute.canaries({})) {
    record::TrialSpec run;
    compute.plant(canary.stratum, {no_bases, parallel, epochs}, {}, run);
    EXPECT_EQ(canary.lands, canary.required == Required::altered);
    faults.push_back(canary.stratum + " " + to_text(run.faults.computed().front()));
  }
  EXPECT_EQ(faults, (std::vector<std::string>{
                        "canary:compute-unreached activation:fc@7:0.0.0.14*3",
                        "canary:compute-activation activation:fc@3:0.0.0.14*3",
                        "canary:compute-gradient gradient:fc@3:0.0.0.14*3",
                        "canary:compute-weight_gradient weight_gradient:fc.bias@3:0.0.0.30*2",
                        "canary:compute-update update:fc.bias@3:0.0.0.30*2",
                        "canary:compute-all activation:fc@1:0.0.0.15+permanent*3",
                    }));
}

TEST(ComputeLanded, NeedsTheNumberThatItSets) {
  const ComputeFault fault{.tensor = "fc", .effect = record::ComputeEffect::zero};
  const auto lands = [&](std::uint64_t now) {
    std::optional<record::RunResult> result = record::RunResult();
    result->altered_values = {{fault, "float32", 0x3f800000, now, 1}};
    return landed(std::vector{fault}, {result, std::nullopt});
  };
  EXPECT_TRUE(lands(0));
  EXPECT_FALSE(lands(0x3f800000));
}

TEST(ComputeLanded, NeedsEachFaultOnceWithItsBit) {
  const ComputeFault fault{.tensor = "fc", .bit = 3};
  record::RunResult result;
  result.altered_values = {{fault, "float32", 0b0001, 0b1001, 1}};
  const auto lands = [&] {
    const std::optional<record::RunResult> known = result;
    return landed(std::vector{fault}, {known, std::nullopt});
  };
  EXPECT_TRUE(lands());
  result.altered_values[0].new_pattern = 0b1011;
  EXPECT_FALSE(lands());
  result.altered_values[0].new_pattern = 0b1001;
  result.altered_values[0].times = 0;
  EXPECT_FALSE(lands());
  result.altered_values[0].times = 1;
  result.altered_values[0].fault.step = 2;
  EXPECT_FALSE(lands());
  result.altered_values.clear();
  EXPECT_FALSE(lands());
}

TEST(ComputeCampaign, SurvivesItsStoredForm) {
  const CampaignSpec spec = read_campaign_spec(
      shipped, {"strata.compute.lasting=permanent", "strata.compute.every=2", "strata.compute.elements=4",
                "strata.compute.stride=8", R"(strata.compute.tensors=["fc*"])", "strata.compute.steps=7"});
  const record::Json value = to_json(spec);
  EXPECT_EQ(to_json(campaign_spec_from_json(value)), value);
  const record::Json random = to_json(read_campaign_spec(
      shipped, {"strata.compute.elements=4", "strata.compute.stride=random", "strata.compute.bits=3"}));
  EXPECT_EQ(random["strata"]["compute"]["stride"], "random");
  EXPECT_EQ(random["strata"]["compute"]["bits"], 3);
  EXPECT_EQ(to_json(campaign_spec_from_json(random)), random);
  const record::Json mixed = to_json(read_campaign_spec(
      shipped, {R"(strata.compute={"elements": 8, "stride": 4, "source": "a test", "patterns": [)"
                R"({"name": "a", "weight": 3, "effect": "nan", "elements": 1}, )"
                R"({"name": "b", "weight": 2, "bits": 2, "field": "exponent", "stride": "random"}]})"}));
  EXPECT_EQ(to_json(campaign_spec_from_json(mixed)), mixed);
  const record::Json& compute = mixed["strata"]["compute"];
  EXPECT_EQ(compute["patterns"][0], record::Json::parse(R"({"name": "a", "weight": 3, "effect": "nan"})"));
  EXPECT_EQ(compute["patterns"][1]["elements"], 8);
  EXPECT_EQ(compute["patterns"][1]["stride"], "random");
  const record::Json library =
      to_json(read_campaign_spec(shipped, {R"(strata.compute={"library": "gpu-gates", "elements": 4})"}));
  EXPECT_EQ(to_json(campaign_spec_from_json(library)), library);
  EXPECT_EQ(library["strata"]["compute"]["patterns"].size(), 5U);
  EXPECT_EQ(library["strata"]["compute"]["patterns"][2]["elements"], 4);
  EXPECT_FALSE(spec.strata->alters_file());
  EXPECT_EQ(spec.strata->strata().size(), 12U);
  EXPECT_EQ(spec.strata->strata()[4].name, "gradient.exponent");
  EXPECT_THAT(spec.strata->sentences(std::nullopt).faults.at(""),
              HasSubstr("that match fc*, in steps 1 to 7, from then on in every step, one in 2, and in the 4 "
                        "elements from there, 8 apart"));
}

class RefusedCompute : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(RefusedCompute, SaysWhy) {
  const auto& [change, says] = GetParam();
  EXPECT_THAT(error_of([&] { (void)read_campaign_spec(shipped, {change}); }), HasSubstr(says));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedCompute,
    ::testing::Values(
        std::pair("strata.compute.computations={}", "bitrift finds out which numbers a step computes"),
        std::pair("strata.compute.fields=[\"sign\", \"31\"]", "share bit 31 of float32"),
        std::pair("strata.compute.sites=[\"weights\"]", "strata.compute.sites"),
        std::pair("strata.compute.lasting=ever", "expected a number of times or \"permanent\""),
        std::pair("strata.compute.lasting=0", "strata.compute.lasting"),
        std::pair("strata.compute.every=2", "give strata.compute.lasting, too"),
        std::pair("strata.compute.stride=2", "give 'elements', too"),
        std::pair("strata.compute.stride=random", "give 'elements', too"),
        std::pair("strata.compute.stride=far", "expected a number of elements or \"random\""),
        std::pair("strata.compute={\"fields\": [\"sign\"], \"elements\": 251, \"bits\": 4}",
                  "a fault flips at most 1000 bits that are random"),
        std::pair("strata.compute.bits=0", "strata.compute.bits"),
        std::pair("strata.compute.effect=zero",
                  "'fields' are bits that flip, and the effect zero sets whole"),
        std::pair("strata.compute={}", "give 'fields', whose bits flip, or another 'effect'"),
        std::pair("strata.compute={\"effect\": \"half\"}", "strata.compute.effect"),
        std::pair("strata.compute={\"effect\": \"nan\", \"bits\": 2}", "the effect nan sets whole numbers"),
        std::pair("strata.compute.library=gpu-gates", "a mixture names the bits and effects of each"),
        std::pair("strata.compute={\"library\": \"mine\"}", "strata.compute.library"),
        std::pair("strata.compute={\"library\": \"gpu-gates\", \"source\": \"me\"}", "a library has its own"),
        std::pair("strata.compute.source=me", "names the source of 'patterns'"),
        std::pair("strata.compute={\"patterns\": [{\"name\": \"a\", \"weight\": 0}]}", "weight"),
        std::pair("strata.compute={\"patterns\": [{\"name\": \"a.b\", \"weight\": 1}]}", "name"),
        std::pair("strata.compute={\"patterns\": [{\"name\": \"a\", \"weight\": 1}, {\"name\": \"a\", "
                  "\"weight\": 2}]}",
                  "strata.compute.patterns[1].name: an earlier pattern has this name"),
        std::pair("strata.compute={\"patterns\": [{\"name\": \"a\", \"weight\": 1, \"effect\": \"inf\", "
                  "\"field\": \"sign\"}]}",
                  "strata.compute.patterns[0].field: the effect inf sets whole numbers"),
        std::pair("strata.compute={\"patterns\": [{\"name\": \"a\", \"weight\": 1, \"field\": \"middle\"}]}",
                  "strata.compute.patterns[0].field"),
        std::pair("strata.roles=[\"weight\"]", "or 'compute'"),
        std::pair("strata.tensors=[\"a\"]", "give strata.compute.tensors"),
        std::pair("propagation={\"steps\": [1]}", "these faults alter none; remove the key"),
        std::pair("arms.0.scope={\"replicas\": 1}", "these faults alter none; remove the key"),
        std::pair("arms.0.precision=fp64", "give base.train.precision"),
        std::pair("arms.0.recovery=shrink", "is for campaigns in which ranks or links fail"),
        std::pair("arms.0.parallel={\"kind\": \"data\", \"ranks\": 2, \"shard_optimizer\": true}",
                  "leave 'update' out of strata.compute.sites"),
        std::pair("arms.1={\"name\": \"other\", \"parallel\": {\"kind\": \"data\", \"ranks\": 2}}",
                  "differs from that of the first arm")));

}  // namespace
}  // namespace bitrift::design::compute_test
