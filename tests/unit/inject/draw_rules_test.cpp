// What the rules of a fault model leave of its draws, and the models that contradict themselves.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/permutation.h"
#include "core/philox.h"
#include "inject/draw/draw.h"
#include "inject/draw/fault_plan.h"
#include "unit/inject/written.h"
#include "unit/scratch.h"

namespace bitrift::inject::draw_rules_test {
namespace {

using ::testing::ElementsAre;
using testing::Hit;
using testing::Hits;
using testing::hits_of;
using testing::Scratch;
using testing::write_tensors;
using testing::Written;

record::FaultModel counted(std::uint64_t count, record::FaultKind what = record::FaultKind::flip) {
  record::FaultModel model;
  model.count = count;
  model.what = what;
  model.seed = 12;
  return model;
}

/// One element of each format: -2, -2 and -3.
std::filesystem::path negatives(const Scratch& scratch) {
  return write_tensors(scratch / "n.h5", {{"model/a.weight", "float16", {0xc000}},
                                          {"model/b.weight", "float32", {0xc0000000}},
                                          {"model/c.count", "int8", {0xfd}},
                                          {"model/d.count", "uint8", {0x80}}});
}

std::vector<std::uint64_t> after(const record::FaultList& list) {
  std::vector<std::uint64_t> patterns;
  for (const record::ElementChange& one : list.changes) patterns.push_back(one.new_pattern);
  return patterns;
}

TEST(Policies, TheSignIsKeptByEveryKind) {
  const Scratch scratch;
  const ckpt::Reader reader(negatives(scratch));
  const auto altered = [&](record::FaultModel model) {
    model.keep_sign = true;
    return after(plan(reader, model).list);
  };
  // Every bit except three signs; an unsigned integer has none.
  EXPECT_THAT(altered(counted(15 + 31 + 7 + 8)), ElementsAre(0xbfff, 0xbfffffff, 0x82, 0x7f));
  EXPECT_THAT(altered(counted(4, record::FaultKind::zero)), ElementsAre(0x8000, 0x80000000, 0x80, 0));
  EXPECT_THAT(altered(counted(4, record::FaultKind::max)), ElementsAre(0xfbff, 0xff7fffff, 0xff, 0xff));
  record::FaultModel model = counted(2, record::FaultKind::set);
  model.roles = {"weight"};
  model.value = "3";
  EXPECT_THAT(altered(model), ElementsAre(0xc200, 0xc0400000));
  model.value = "-3";
  EXPECT_THAT(altered(model), ElementsAre(0xc200, 0xc0400000));
  model = counted(2, record::FaultKind::scale);
  model.roles = {"weight"};
  model.factor = -2;
  EXPECT_THAT(altered(model), ElementsAre(0xc400, 0xc0800000));
  EXPECT_EQ(plan(reader, counted(64)).census.bits, 16U + 32 + 8 + 8);
  EXPECT_ERROR(static_cast<void>(altered(counted(62))), bad_input, "more than the 61 bits");
}

TEST(Policies, WholeElementsTakeTheNumbersOfTheirFormat) {
  const Scratch scratch;
  const ckpt::Reader reader(negatives(scratch));
  const auto altered = [&](record::FaultKind what, std::uint64_t count) {
    const record::FaultList list = plan(reader, counted(count, what)).list;
    for (const record::ElementChange& one : list.changes)
      EXPECT_EQ(one.bits, number_format(list.sites.at(one.site).dtype).value().mask());
    return after(list);
  };
  EXPECT_THAT(altered(record::FaultKind::zero, 4), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(altered(record::FaultKind::max, 4), ElementsAre(0x7bff, 0x7f7fffff, 0x7f, 0xff));
  // Integers have neither NaN nor infinity.
  EXPECT_THAT(altered(record::FaultKind::nan, 2), ElementsAre(0x7e00, 0x7fc00000));
  EXPECT_THAT(altered(record::FaultKind::infinity, 2), ElementsAre(0x7c00, 0x7f800000));
  EXPECT_ERROR(static_cast<void>(altered(record::FaultKind::nan, 3)), bad_input, "more than the 2 elements");
}

/// All 2048 patterns of float16 with an even mantissa's lower half, so that most exponents occur.
std::vector<std::uint64_t> many_patterns() {
  std::vector<std::uint64_t> patterns;
  for (std::uint64_t i = 0; i < 2000; ++i) patterns.push_back(i * 15 & 0x7bff);
  return patterns;
}

TEST(Policies, RandomBitsAreDrawnAgainForTheSameElementUntilTheyAreANumber) {
  const Scratch scratch;
  const std::vector<std::uint64_t> values = many_patterns();
  const ckpt::Reader reader(write_tensors(scratch / "r.h5", {{"model/a.weight", "float16", values}}));
  record::FaultModel model = counted(1000, record::FaultKind::random);
  model.allow_nan = false;
  const Permutation order(values.size(), derive_key(12, "inject.element"));
  const std::uint64_t key = derive_key(12, "inject.value");
  int again = 0;
  Hits expected;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    std::uint64_t k = 0;
    while ((random_u64(key, i, k) & 0x7c00) == 0x7c00) ++k;
    again += k > 0 ? 1 : 0;
    expected[{"model/a.weight", order(i)}] = {0xffff, values[order(i)], random_u64(key, i, k) & 0xffff};
  }
  const Plan drawn = plan(reader, model);
  EXPECT_EQ(hits_of(drawn.list), expected);
  EXPECT_EQ(drawn.redrawn, 0U);  // no sample was refused, only values
  EXPECT_GT(again, 10);
}

TEST(Policies, RandomBitsOfAFieldLeaveTheOthers) {
  const Scratch scratch;
  const std::vector<std::uint64_t> values = many_patterns();
  const ckpt::Reader reader(write_tensors(scratch / "r.h5", {{"model/a.weight", "float16", values}}));
  record::FaultModel model = counted(2000, record::FaultKind::random);
  model.bits = "mantissa";
  const Permutation order(values.size(), derive_key(12, "inject.element"));
  const std::uint64_t key = derive_key(12, "inject.value");
  Hits expected;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const std::uint64_t old = values[order(i)];
    expected[{"model/a.weight", order(i)}] = {0x3ff, old, (old & 0xfc00) | (random_u64(key, i, 0) & 0x3ff)};
  }
  EXPECT_EQ(hits_of(plan(reader, model).list), expected);
}

TEST(Policies, FaultsThatCannotAllBePlacedAreRefusedWithTheirNumber) {
  const Scratch scratch;
  // The exponent's top bit makes infinity of 1 and a number of 0.5.
  const ckpt::Reader mixed(
      write_tensors(scratch / "a.h5", {{"model/a.weight", "float16", {0x3c00, 0x3800}}}));
  record::FaultModel model = counted(2);
  model.bits = "exponent_msb";
  model.allow_nan = false;
  EXPECT_ERROR(static_cast<void>(plan(mixed, model)), bad_input,
               "only 1 of the 2 faults can be placed: all other draws give NaN or infinity, which --no-nan");
  model.count = 1;
  for (model.seed = 0; model.seed < 20; ++model.seed) {
    const Plan drawn = plan(mixed, model);
    EXPECT_EQ(hits_of(drawn.list), (Hits{{{"model/a.weight", 1}, {0x4000, 0x3800, 0x7800}}}));
    EXPECT_EQ(drawn.redrawn, Permutation(2, derive_key(model.seed, "inject"))(0) == 0 ? 1U : 0U);
    EXPECT_EQ(drawn.census.bits, 1U);
  }
  const ckpt::Reader ones(write_tensors(scratch / "b.h5", {{"model/a.weight", "float16", {0x3c00, 0x3c00}}}));
  EXPECT_ERROR(static_cast<void>(plan(ones, model)), bad_input, "only 0 of the 1 faults can be placed");
  // A burst of 5 fits once into a byte.
  const ckpt::Reader bytes(write_tensors(scratch / "c.h5", {{"model/c.count", "int8", {1, 2, 3}}}));
  model = counted(3, record::FaultKind::burst);
  model.length = 5;
  EXPECT_EQ(after(plan(bytes, model).list).size(), 3U);
  model.count = 4;
  EXPECT_ERROR(static_cast<void>(plan(bytes, model)), bad_input,
               "only 3 of the 4 faults can be placed: all other draws overlap bits that are altered already");
  model.count = 13;
  EXPECT_ERROR(static_cast<void>(plan(bytes, model)), bad_input, "more than the 12 places");
}

TEST(Policies, TheMeasureTensorGivesUpWhereNothingIsLeft) {
  const Scratch scratch;
  // Bit 23 makes infinity of 2^127, and 1 of 0.5.
  const ckpt::Reader reader(
      write_tensors(scratch / "t.h5", {{"model/a.weight", "float32", {0x7f000000, 0x3f000000}}}));
  record::FaultModel model = counted(2);
  model.bits = "23";
  model.allow_nan = false;
  model.measure = record::Measure::tensor;
  EXPECT_ERROR(static_cast<void>(plan(reader, model)), bad_input,
               "1002000 draws of --measure tensor placed only 1 of 2 faults");
}

TEST(Policies, LayersLimitThePopulation) {
  const Scratch scratch;
  const ckpt::Reader reader(write_tensors(scratch / "l.h5", {{"model/conv1.bias", "float32", {1, 2}},
                                                             {"model/conv1.weight", "float32", {3, 4, 5}},
                                                             {"model/conv2.weight", "float32", {6, 7}},
                                                             {"model/fc.weight", "float32", {8}}}));
  const auto hit = [&](std::vector<std::string> layers, std::uint64_t elements) {
    record::FaultModel model = counted(elements, record::FaultKind::zero);
    model.layers = std::move(layers);
    std::vector<std::uint64_t> old;
    for (const record::ElementChange& one : plan(reader, model).list.changes) old.push_back(one.old_pattern);
    model.count = elements + 1;
    EXPECT_ERROR(static_cast<void>(plan(reader, model)), bad_input, "elements that are targeted");
    return old;
  };
  EXPECT_THAT(hit({"first"}, 5), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(hit({"middle"}, 2), ElementsAre(6, 7));
  EXPECT_THAT(hit({"last"}, 1), ElementsAre(8));
  EXPECT_THAT(hit({"fc", "conv2"}, 3), ElementsAre(6, 7, 8));
}

TEST(Amounts, ExactlyOneInItsRange) {
  const auto refuse = [](auto change, const char* text) {
    record::FaultModel model = counted(1);
    change(model);
    EXPECT_ERROR(check_model(model), bad_input, text);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  check_model(counted(1));
  refuse([](auto& m) { m.count.reset(); }, "exactly one of");
  refuse([](auto& m) { m.ber = 0.1; }, "exactly one of");
  refuse([](auto& m) { m.fraction = 0.1; }, "exactly one of");
  refuse([](auto& m) { m.count = 0; }, "--count is 0");
  for (const double wrong : {0.0, -0.1, 1.0001, nan}) {
    refuse([&](auto& m) { m.count.reset(), m.fraction = wrong; }, "is not above 0 and at most 1");
    refuse([&](auto& m) { m.count.reset(), m.ber = wrong; }, "is not above 0 and at most 1");
  }
  refuse([](auto& m) { m.count.reset(), m.fraction = 0.5, m.measure = record::Measure::tensor; },
         "cannot be used with --measure tensor");
  const auto rate_with = [&](auto change) {
    refuse([&](auto& m) { m.count.reset(), m.ber = 0.5, change(m); }, "--ber hits each bit independently");
  };
  rate_with([](auto& m) { m.measure = record::Measure::element; });
  rate_with([](auto& m) { m.measure = record::Measure::tensor; });
  rate_with([](auto& m) { m.what = record::FaultKind::zero; });
  rate_with([](auto& m) { m.what = record::FaultKind::burst, m.length = 2; });
}

TEST(Amounts, AnInjectionHasALargestOne) {
  const Scratch scratch;
  // 21,000,000 bits.
  const ckpt::Reader reader(
      write_tensors(scratch / "m.h5", {{"model/a.weight", "uint8", std::vector<std::uint64_t>(2'625'000)}}));
  EXPECT_ERROR(static_cast<void>(draw(reader, counted(20'000'001))), bad_input, "has at most 20000000");
  record::FaultModel model = counted(1);
  model.count.reset();
  model.ber = 0.96;  // about 20,160,000
  EXPECT_ERROR(static_cast<void>(draw(reader, model)), bad_input, "about 2.02e+07 faults");
}

}  // namespace
}  // namespace bitrift::inject::draw_rules_test
