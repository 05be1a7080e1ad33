#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyze/rates/interval.h"
#include "study/study_table.h"
#include "unit/scratch.h"

namespace bitrift::study {
namespace {

using ::testing::HasSubstr;

constexpr FileKind kind{Format::dcp, FileWriter::native, "", ""};

StudyRow flip(BitStratum stratum, std::uint64_t draw, DamageOutcome outcome, std::uint64_t missing = 0) {
  const char* const structures[] = {"end of the archive", "header of a", "header of b"};
  const std::string structure = stratum == BitStratum::payload ? "w" : structures[draw % 3];
  return {kind.format, kind.writer,
          DamageResult{{}, stratum, draw, BitFault{"a", draw, 0, structure}, outcome, "", missing}};
}

// 4 bytes of payload and 12 of metadata. Of 8 flips of payload, 6 are silent; of 4 of metadata 2 are
// detected.
class SummaryTest : public ::testing::Test {
 protected:
  SummaryTest() {
    std::filesystem::create_directory(scratch_ / "d");
    bitrift::testing::write_bytes(scratch_ / "d" / "a", std::string(16, 'x'));
    files_.push_back({kind, scratch_ / "d", FileBits(scratch_ / "d", {{"a", 0, 4, "w"}})});
    spec_.name = "s";
    spec_.formats = {Format::npz, Format::dcp};
    spec_.writers = {FileWriter::native};
    spec_.parts = {StudyPart::size, StudyPart::determinism, StudyPart::damage};
    rows_ = {{kind.format, kind.writer, SizeResult{16, 4, 8, 2}},
             {kind.format, kind.writer, DeterminismResult{false, 16, 16, 1, BitFault{"a", 9, 0, "a"}}},
             {kind.format, kind.writer,
              DamageResult{.canary = DamageCanary::no_flip, .outcome = DamageOutcome::same}}};
    for (std::uint64_t i = 0; i < 8; ++i)
      rows_.push_back(flip(BitStratum::payload, i,
                           i < 6 ? DamageOutcome::silently_wrong : DamageOutcome::crash, i == 0 ? 2 : 0));
    for (std::uint64_t i = 0; i < 4; ++i)
      rows_.push_back(flip(BitStratum::metadata, i, i < 2 ? DamageOutcome::detected : DamageOutcome::same));
  }
  static std::size_t at(DamageOutcome outcome) { return static_cast<std::size_t>(outcome); }

  bitrift::testing::Scratch scratch_;
  StudySpec spec_;
  std::vector<StudyFile> files_;
  std::vector<StudyRow> rows_;
};

TEST_F(SummaryTest, CountsAndRatesOfAStratumAreThoseOfCampaigns) {
  const auto kinds = summarize(spec_, rows_, files_);
  ASSERT_EQ(kinds.size(), 2);
  EXPECT_EQ(kinds[0].missing, "not installed");
  const DamageCell& payload = kinds[1].cells.at(0);
  EXPECT_EQ(payload.bits, 32);
  EXPECT_EQ(payload.counts, (OutcomeCounts{0, 6, 0, 2, 0}));
  EXPECT_EQ(payload.missing, 1);
  const analyze::Rate& silent = payload.rates[at(DamageOutcome::silently_wrong)];
  EXPECT_EQ(silent.estimate, 0.75);
  const analyze::Interval anytime = analyze::anytime_finite(6, 8, 32, 0.95);
  EXPECT_EQ(silent.anytime.low, anytime.low);
  EXPECT_EQ(silent.anytime.high, anytime.high);
  EXPECT_EQ(silent.clopper_pearson.low, analyze::clopper_pearson(6, 8, 0.95).low);
  EXPECT_EQ(kinds[1].cells.at(1).counts, (OutcomeCounts{2, 0, 2, 0, 0}));
  EXPECT_EQ(kinds[1].structures.at("header"), (OutcomeCounts{1, 0, 1, 0, 0}));
  EXPECT_EQ(kinds[1].structures.at("end of the archive"), (OutcomeCounts{1, 0, 1, 0, 0}));
}

TEST_F(SummaryTest, TheFileIsWeightedByBits) {
  const auto kinds = summarize(spec_, rows_, files_);
  const OutcomeRates& rates = kinds[1].file.value();
  EXPECT_DOUBLE_EQ(rates[at(DamageOutcome::silently_wrong)].estimate, 0.75 * 4 / 16);
  EXPECT_DOUBLE_EQ(rates[at(DamageOutcome::same)].estimate, 0.5 * 12 / 16);
  double sum = 0;
  for (const analyze::Rate& rate : rates) {
    sum += rate.estimate;
    EXPECT_LE(rate.anytime.low, rate.estimate);
    EXPECT_GE(rate.anytime.high, rate.estimate);
  }
  EXPECT_DOUBLE_EQ(sum, 1);
}

TEST_F(SummaryTest, DocumentAndTableSayTheSame) {
  const auto kinds = summarize(spec_, rows_, files_);
  const record::Json document = summary_json(spec_, kinds);
  EXPECT_EQ(document["files"][0]["missing"], "not installed");
  const record::Json& dcp = document["files"][1];
  EXPECT_EQ(dcp["size"]["overhead"], 1.0);
  EXPECT_EQ(dcp["size"]["bytes_per_parameter"], 8.0);
  EXPECT_EQ(dcp["determinism"]["first_difference"]["byte"], 9);
  EXPECT_EQ(dcp["damage"]["canaries"]["no_flip"], "same");
  EXPECT_EQ(dcp["damage"]["strata"][0]["counts"]["crash"], 2);
  const std::string table = study_table(spec_, kinds);
  EXPECT_THAT(table, HasSubstr("npz           native   not installed"));
  EXPECT_THAT(table, HasSubstr("100.00%    0.500  differ from byte 9 of a on: a"));
  EXPECT_THAT(table, HasSubstr("payload          32      8"));
  EXPECT_THAT(table, HasSubstr("metadata         96      4"));
}

TEST_F(SummaryTest, PartsThatWereNotAskedForAreNotInTheTable) {
  spec_.parts = {StudyPart::size};
  rows_.resize(1);
  const auto kinds = summarize(spec_, rows_, files_);
  EXPECT_FALSE(summary_json(spec_, kinds)["files"][1].contains("damage"));
  EXPECT_EQ(study_table(spec_, kinds).find("detected"), std::string::npos);
}

}  // namespace
}  // namespace bitrift::study
