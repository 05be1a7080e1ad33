// Silent flips as trials of a campaign.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyze/rates/interval.h"
#include "campaign/plan/ends.h"
#include "campaign/plan/plan.h"
#include "ckpt/reader.h"
#include "study/replay/replay_part.h"
#include "study/replay/replay_summary.h"
#include "unit/places.h"
#include "unit/scratch.h"

namespace bitrift::study {
namespace {

using bitrift::testing::Scratch;
using bitrift::testing::write_bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr FileKind dcp{Format::dcp, FileWriter::native, "", ""};

TEST(Replay, TheCampaignChangesExactlyTheGivenBits) {
  const Scratch scratch;
  std::filesystem::copy_file(std::filesystem::path(bitrift::testing::source_dir) / "data/lenet/lenet.h5",
                             scratch / "base.h5");
  StudySpec study;
  study.name = "s";
  study.replay = {.flips = 3, .epochs = 2, .seed = 8};
  const std::vector<ReplayTrial> trials = {{"a-0", {"model/fc1.weight", 77, 0x40000000}},
                                           {"b-1", {"optimizer/momentum_buffer/fc3.bias", 0, 0x5}},
                                           {"b-2", {"progress/step", 0, std::uint64_t{1} << 63U}}};
  write_bytes(scratch / "replay.json", replay_campaign(study, "base.h5", trials).dump());
  const design::CampaignSpec spec = design::read_campaign_spec(scratch / "replay.json");
  EXPECT_EQ(spec.resume_epochs, 2);
  campaign::Bases bases;
  bases.emplace_back(scratch / "base.h5");
  const campaign::Plan plan(spec, bases);
  const auto keys = plan.trials("serial");
  ASSERT_EQ(keys.size(), trials.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(keys[i].id.text(), "serial/" + trials[i].name + "/0");
    const auto faults = plan.expand(keys[i]).faults.bits().expanded();
    ASSERT_EQ(faults.size(), 1);
    EXPECT_EQ(faults[0].tensor, trials[i].change.tensor);
    EXPECT_EQ(faults[0].element, trials[i].change.element);
    EXPECT_EQ(faults[0].old_pattern ^ faults[0].new_pattern, trials[i].change.mask);
  }
}

TEST(Replay, OutcomesAreThoseOfTheCampaignsSummary) {
  const Scratch scratch;
  const auto path = scratch / "summary.json";
  const std::vector<ReplayTrial> trials = {{"a-0", {"w", 0, 1}}, {"b-1", {"w", 1, 1}}};
  write_bytes(path, R"({"groups": [{"key": {"stratum": "a-0"}, "reasons": {"bitwise": 1}},
                                   {"key": {"stratum": "b-1"}, "reasons": {"hang": 1}}]})");
  const auto reasons = replay_reasons(path, trials);
  EXPECT_EQ(reasons.at("a-0"), record::Reason::bitwise);
  EXPECT_EQ(reasons.at("b-1"), record::Reason::hang);
  write_bytes(path, R"({"groups": [{"key": {"stratum": "a-0"}, "reasons": {"bitwise": 1}}]})");
  EXPECT_ERROR((void)replay_reasons(path, trials), bad_file, "summary.json: no outcome of b-1");
  write_bytes(path, R"({"groups": [{"key": {"stratum": "a-0"}}]})");
  EXPECT_ERROR((void)replay_reasons(path, trials), bad_file, "not the summary of a campaign");
}

TEST(Replay, ACampaignThatDoesNotEndWellIsNoOutcome) {
  const Scratch scratch;
  const auto ended = [&](const std::string& code) {
    write_bytes(scratch / "bitrift", "#!/bin/sh\necho 'bitrift: arm serial: canary:nan' >&2\nexit " + code);
    std::filesystem::permissions(scratch / "bitrift", std::filesystem::perms::owner_all);
    (void)run_replay_campaign(
        {}, {scratch / "bitrift", "", "base.h5", scratch / "r.json", scratch / "r", scratch / "log"},
        {{"a-0", {"w", 0, 1}}});
  };
  EXPECT_THROW(ended("1"), campaign::Misbehaviour);
  EXPECT_ERROR(ended("2"), bad_input, "ended with exit code 2");
  EXPECT_ERROR(ended("2"), bad_input, "canary:nan");
  EXPECT_ERROR(ended("3"), internal, "ended with exit code 3");
}

// 4 bytes of payload. Of 8 flips, 6 are silent: masked, SDC, crash, crash, not replayed, and one beyond what
// is replayed.
class ReplaySummary : public ::testing::Test {
 protected:
  ReplaySummary() {
    std::filesystem::create_directory(scratch_ / "d");
    write_bytes(scratch_ / "d" / "a", std::string(16, 'x'));
    files_.push_back({dcp, scratch_ / "d", FileBits(scratch_ / "d", {{"a", 0, 4, "w"}})});
    spec_.parts = {StudyPart::damage, StudyPart::replay};
    spec_.replay.flips = 7;
    for (std::uint64_t draw = 0; draw < 8; ++draw) {
      const bool silent = draw >= 2;
      add(DamageResult{{},
                       BitStratum::payload,
                       draw,
                       BitFault{"a", draw % 4, 0, "w"},
                       silent ? DamageOutcome::silently_wrong : DamageOutcome::detected,
                       "",
                       0});
    }
    add(DamageResult{{}, BitStratum::metadata, 0, BitFault{"a", 9, 0, "a"}, DamageOutcome::silently_wrong});
    using record::Reason;
    const std::vector<std::optional<Reason>> reasons = {Reason::reconverged, Reason::training_only,
                                                        Reason::hang, Reason::nonfinite, std::nullopt};
    for (std::uint64_t i = 0; i < reasons.size(); ++i) {
      ReplayResult replay{i + 2};
      if (reasons[i]) replay = {i + 2, ValueChange{"w", 0, 1}, reasons[i]};
      add(replay);
    }
  }
  template <typename T>
  void add(T result) {
    rows_.push_back({dcp.format, dcp.writer, std::move(result)});
  }

  Scratch scratch_;
  StudySpec spec_;
  std::vector<StudyFile> files_;
  std::vector<StudyRow> rows_;
};

TEST_F(ReplaySummary, SilentFlipsOfThePayloadAreReplayed) {
  StudyJournal journal(scratch_ / "rows.jsonl");
  for (const StudyRow& row : rows_) journal.append(row);
  std::vector<std::string> names;
  for (const SilentFlip& flip : silent_flips(spec_, journal, files_)) names.push_back(flip.name());
  EXPECT_THAT(names,
              ElementsAre("dcp-native-2", "dcp-native-3", "dcp-native-4", "dcp-native-5", "dcp-native-6"));
}

TEST_F(ReplaySummary, RatesAreOfAllFlipsAndAllowForWhatWasNotReplayed) {
  const auto kinds = summarize_replays(spec_, rows_, files_);
  ASSERT_EQ(kinds.size(), 1);
  const ReplayedKind& kind = kinds[0];
  EXPECT_EQ(kind.bits, 32);
  EXPECT_EQ(kind.flips, 7);
  EXPECT_EQ(kind.undetected, 5);
  EXPECT_EQ(kind.not_replayed, 1);
  EXPECT_THAT(kind.counts, ElementsAre(1, 1, 2));
  const analyze::Rate& crash = kind.rates[static_cast<std::size_t>(record::OutcomeClass::crash)];
  EXPECT_DOUBLE_EQ(crash.estimate, 2.0 / 7);
  EXPECT_EQ(crash.anytime.low, analyze::anytime_finite(2, 7, 32, 0.95).low);
  EXPECT_EQ(crash.anytime.high, analyze::anytime_finite(3, 7, 32, 0.95).high);
  EXPECT_EQ(kind.undetected_rate.anytime.high, analyze::anytime_finite(5, 7, 32, 0.95).high);
  const record::Json json = replays_json(kinds)[0];
  EXPECT_EQ(json["counts"],
            (record::Json{{"undetected", 5}, {"not_replayed", 1}, {"masked", 1}, {"SDC", 1}, {"crash", 2}}));
  EXPECT_THAT(replays_table(spec_, kinds), HasSubstr("dcp           native        7"));
  EXPECT_THAT(replays_table(spec_, kinds), HasSubstr("28.6 ["));
  spec_.parts = {StudyPart::damage};
  EXPECT_TRUE(summarize_replays(spec_, rows_, files_).empty());
  EXPECT_EQ(replays_table(spec_, {}), "");
}

}  // namespace
}  // namespace bitrift::study
