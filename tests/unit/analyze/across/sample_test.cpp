#include "analyze/across/sample.h"

#include <limits>

#include <gmock/gmock.h>

#include "core/error.h"
#include "design/kind/bit_strata.h"
#include "unit/analyze/samples.h"

namespace bitrift::analyze::sample_test {
namespace {

using record::Json;
using record::OutcomeClass;
using testing::add_trials;
using testing::clean_arm;
using ::testing::HasSubstr;
using testing::spec_of;
using Rows = std::vector<record::TrialRecord>;

design::CampaignSpec one_stratum() {
  design::CampaignSpec spec = spec_of({"serial"});
  spec.bases.front().checkpoint = "/somewhere/base.h5";
  spec.strata.edit<design::BitStrata>().roles = {"weight"};
  spec.strata.edit<design::BitStrata>().fields = {"sign"};
  return spec;
}

Rows rows_of(int masked, int sdc, int crash) {
  Rows rows = clean_arm("serial");
  add_trials(rows, "serial", "weight.sign", 1000, masked, sdc, crash);
  return rows;
}

Sample sampled(const Rows& rows, const design::CampaignSpec& spec = one_stratum()) {
  return sample_of(rows, spec, trust_of(rows, judging_of(spec)), {}, {{"base", "0123"}});
}

record::AppliedFault fault(std::uint64_t element) {
  record::AppliedFault fault;
  fault.tensor = "model/fc.weight";
  fault.element = element;
  fault.dtype = "float32";
  fault.bits = {30};
  fault.new_pattern = 1U << 30;
  return fault;
}

std::string refusal(const Json& value) {
  try {
    (void)sample_from_json(value);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    return error.what();
  }
  return "";
}

TEST(Sample, HoldsTheOutcomesOfDrawsWithoutAGap) {
  Rows rows = rows_of(5, 3, 2);
  std::erase_if(rows, [](const record::TrialRecord& row) {
    return row.kind == record::TrialKind::trial && row.id.draw == 8;
  });
  const Sample sample = sampled(rows);
  const SampledCell* cell = sample.cell("serial", "weight.sign");
  ASSERT_NE(cell, nullptr);
  EXPECT_EQ(cell->outcomes.size(), 8U);
  EXPECT_EQ(cell->outcomes[4], OutcomeClass::masked);
  EXPECT_EQ(cell->outcomes[7], OutcomeClass::sdc);
  EXPECT_EQ(sample.trials(), 8U);
  EXPECT_EQ(sample.draws_per_arm(), 10U);
  EXPECT_EQ(sample.cell("serial", "weight.exponent"), nullptr);
}

TEST(Sample, TellsFaultsApart) {
  Rows rows = rows_of(3, 0, 0);
  for (record::TrialRecord& row : rows) {
    if (row.kind == record::TrialKind::trial)
      row.faults.bits().append(fault(row.id.draw == 2 ? 0 : row.id.draw));
  }
  const auto faults = sampled(rows).cell("serial", "weight.sign")->faults;
  ASSERT_EQ(faults.size(), 3U);
  EXPECT_EQ(faults[0], faults[2]);
  EXPECT_NE(faults[0], faults[1]);
}

TEST(Sample, NotesTheLargestChangeOfAnElement) {
  Rows rows = rows_of(4, 0, 0);
  for (record::TrialRecord& row : rows) {
    if (row.kind != record::TrialKind::trial || row.id.draw == 3) continue;
    record::AppliedFault one = fault(1);
    one.old_pattern = 0x3f800000;  // 1
    one.new_pattern = 0xbf800000;
    if (row.id.draw == 1) one.new_pattern = 0x7f800000;
    row.faults.bits().append(one);
    if (row.id.draw != 2) continue;
    one.element = 2;
    one.new_pattern = 0x41200000;  // 10
    row.faults.bits().append(one);
    one.element = 3;
    one.dtype = "";
    row.faults.bits().append(one);
  }
  const Sample sample = sampled(rows);
  const SampledCell* cell = sample.cell("serial", "weight.sign");
  EXPECT_THAT(cell->sizes, ::testing::ElementsAre(2, std::numeric_limits<double>::max(), 9, no_size));
  const Sample read = sample_from_json(Json::parse(to_json(sample).dump()));
  EXPECT_EQ(read.cell("serial", "weight.sign")->sizes, cell->sizes);
}

TEST(Sample, IsTheSameAfterItWasWrittenAndRead) {
  const Sample sample = sampled(rows_of(5, 3, 2));
  const Json written = to_json(sample);
  EXPECT_EQ(written["schema"], "bitrift/baseline/3");
  EXPECT_EQ(written["arms"]["serial"]["weight.sign"]["outcomes"], "mmmmmssscc");
  const Sample read = sample_from_json(Json::parse(written.dump()));
  EXPECT_EQ(to_json(read), written);
  EXPECT_EQ(read.order.names, sample.order.names);
  EXPECT_EQ(read.order.bits, sample.order.bits);
  EXPECT_EQ(read.base_digests.at("base"), "0123");
}

TEST(Sample, RefusesWhatIsNoBaseline) {
  EXPECT_THAT(refusal(Json::array()), HasSubstr("not a baseline (its schema is missing"));
  EXPECT_THAT(refusal({{"schema", "bitrift/summary/2"}}), HasSubstr("'bitrift/summary/2'"));
  EXPECT_THAT(refusal({{"schema", "bitrift/baseline/2"}}), HasSubstr("another version of bitrift wrote it"));
  EXPECT_THAT(refusal({{"schema", "bitrift/baseline/3"}}), HasSubstr("not a whole baseline"));
}

TEST(Sample, RefusesADamagedBaseline) {
  const Json whole = to_json(sampled(rows_of(5, 3, 2)));
  const auto with = [&](const char* pointer, const Json& value) {
    Json changed = whole;
    changed[Json::json_pointer(pointer)] = value;
    return refusal(changed);
  };
  EXPECT_THAT(with("/arms/serial/weight.sign/outcomes", "mmmmmssscx"), HasSubstr("letters m, s and c"));
  EXPECT_THAT(with("/arms/serial/weight.sign/faults", "00"), HasSubstr("eight digits"));
  EXPECT_THAT(with("/arms/serial/weight.sign/faults", std::string(80, 'g')), HasSubstr("hexadecimal"));
  EXPECT_THAT(with("/arms/serial/weight.sign/sizes", Json::array()), HasSubstr("one entry for each letter"));
  EXPECT_THAT(with("/arms/serial/weight.sign/sizes/3", -1),
              HasSubstr("-1, which is not the size of a fault"));
  EXPECT_THAT(with("/arms/serial/weight.sign/bits", 9), HasSubstr("9 bits has 10 outcomes"));
  EXPECT_THAT(with("/arms/other", Json::object()), HasSubstr("arm 'other' is not in its spec"));
  EXPECT_THAT(with("/spec/seed", "x"), HasSubstr("seed"));
  EXPECT_THAT(with("/rounds", 3), HasSubstr("schema"));
  EXPECT_THAT(with("/horizon", "x"), HasSubstr("not a whole baseline"));
  EXPECT_THAT(with("/arms/serial/weight.sign/rises", Json::array()), HasSubstr("one entry for each letter"));
  EXPECT_THAT(with("/arms/serial/weight.sign/rises/0", {1}), HasSubstr("hold 1 values, \"metrics\" has 2"));
  EXPECT_THAT(with("/arms/serial/weight.sign/rises/9", {1, 1}), HasSubstr("draw 9, which crashed"));
  EXPECT_THAT(with("/references/serial/limit/0", nullptr), HasSubstr("not finite"));
  EXPECT_THAT(with("/references/serial/limit/0", -1), HasSubstr("not finite"));
  EXPECT_THAT(with("/references/serial/golden/0/0", nullptr), HasSubstr("not finite"));
  EXPECT_THAT(with("/references/serial/clean/3/1", "Infinity"), HasSubstr("not finite"));
  EXPECT_THAT(with("/references/serial/golden", Json::array()), HasSubstr("other lengths"));
  EXPECT_THAT(with("/references/serial/metrics/0", "speed"), HasSubstr("speed"));
  EXPECT_THAT(with("/spec/controls/orders", 2), HasSubstr("1 golden runs, its spec has 2 data orders"));
  EXPECT_THAT(with("/references", Json::object()), HasSubstr("not a whole baseline"));
}

}  // namespace
}  // namespace bitrift::analyze::sample_test
