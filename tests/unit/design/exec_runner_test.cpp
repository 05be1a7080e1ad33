#include "spec/exec_runner.h"

#include <cmath>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/file.h"
#include "design/campaign_spec.h"
#include "unit/scratch.h"

namespace bitrift::design::exec_runner_test {
namespace {

using namespace record;

using Words = std::vector<std::string>;

TEST(ExecWords, ValuesReplaceTheirNamesAnywhereInAWord) {
  EXPECT_EQ(expand_exec_words({"run", "--in={checkpoint}", "{epochs}", "{a}{checkpoint}"},
                              {{"checkpoint", "/x y"}, {"epochs", "0"}}),
            (Words{"run", "--in=/x y", "0", "{a}/x y"}));
}

TEST(ExecWords, AWordWithoutValueIsDroppedWithItsOption) {
  const std::map<std::string, std::string> none = {{"order_seed", ""}};
  EXPECT_EQ(expand_exec_words({"run", "--seed", "{order_seed}", "on"}, none), (Words{"run", "on"}));
  EXPECT_EQ(expand_exec_words({"run", "--seed={order_seed}", "on"}, none), (Words{"run", "on"}));
  EXPECT_EQ(expand_exec_words({"run", "{order_seed}", "on"}, none), (Words{"run", "on"}));
}

TEST(ExecSpec, StoredFormKeepsTheCommandWithItsFolder) {
  const TemporaryFolder folder("exec-spec");
  const auto base = folder.path() / "base.h5";
  replace_text(base, "");
  replace_text(folder.path() / "spec.json", R"({"name": "x", "seed": 1, "base": {"checkpoint": "base.h5"},
    "runner": {"exec": {"command": ["{folder}/run", "{checkpoint}"]}}, "trials_per_stratum": 1,
    "arms": [{"name": "a", "parallel": {"kind": "serial"}, "exec": ["--in={folder}", "{result}"]}],
    "strata": {"roles": ["weight"], "fields": ["sign"]}})");
  const CampaignSpec spec = read_campaign_spec(folder.path() / "spec.json");
  EXPECT_EQ(spec.runner.command, (Words{folder.path() / "run", "{checkpoint}"}));
  EXPECT_EQ(spec.arms[0].words, (Words{"--in=" + folder.path().string(), "{result}"}));
  const CampaignSpec again = campaign_spec_from_json(to_json(spec));
  EXPECT_EQ(again.runner.command, spec.runner.command);
  EXPECT_EQ(again.arms[0].words, spec.arms[0].words);
  EXPECT_EQ(to_json(again), to_json(spec));
}

TEST(PythonSpec, StoredFormKeepsScriptAndInterpreterWithTheirFolder) {
  const TemporaryFolder folder("python-spec");
  replace_text(folder.path() / "base.h5", "");
  replace_text(folder.path() / "train.py", "");
  const auto read = [&](const std::string& runner) {
    replace_text(folder.path() / "spec.json", R"({"name": "x", "seed": 1, "base": {"checkpoint": "base.h5"},
      "runner": )" + runner + R"(, "trials_per_stratum": 1,
      "arms": [{"name": "a", "parallel": {"kind": "serial"}, "exec": ["{not a placeholder}"]}],
      "strata": {"roles": ["weight"], "fields": ["sign"]}})");
    return read_campaign_spec(folder.path() / "spec.json");
  };
  const CampaignSpec spec = read(R"({"python": "./train.py:main", "interpreter": "bin/python"})");
  EXPECT_EQ(spec.runner.kind, RunnerKind::python);
  EXPECT_EQ(spec.runner.script, folder.path() / "train.py");
  EXPECT_EQ(spec.runner.function, "main");
  EXPECT_EQ(spec.runner.interpreter, folder.path() / "bin/python");
  EXPECT_EQ(spec.arms[0].words, Words{"{not a placeholder}"});
  EXPECT_EQ(to_json(campaign_spec_from_json(to_json(spec))), to_json(spec));
  const CampaignSpec plain = read(R"({"python": "train.py", "interpreter": "python3.12"})");
  EXPECT_EQ(plain.runner.script, folder.path() / "train.py");
  EXPECT_EQ(plain.runner.function + plain.runner.interpreter, "python3.12");
  EXPECT_ERROR(static_cast<void>(read(R"({"python": "train.py:9"})")), not_found, "train.py:9");
}

TEST(ReaderCanaries, OfAStoredSpecAreThoseOfItsVersion) {
  const TemporaryFolder folder("readers-spec");
  replace_text(folder.path() / "base.h5", "");
  const auto read = [&](const std::string& controls) {
    replace_text(folder.path() / "spec.json", R"({"name": "x", "seed": 1, "base": {"checkpoint": "base.h5"},
      "trials_per_stratum": 1, "arms": [{"name": "a", "parallel": {"kind": "serial"}}],
      "strata": {"roles": ["weight"], "fields": ["sign"]}, "controls": )" +
                                                  controls + "}");
    return read_campaign_spec(folder.path() / "spec.json");
  };
  EXPECT_EQ(read("{}").reader_canaries, true);
  EXPECT_EQ(read(R"({"readers": false})").reader_canaries, false);
  Json stored = to_json(read("{}"));
  EXPECT_EQ(campaign_spec_from_json(stored).reader_canaries, true);
  stored["controls"].erase("readers");
  EXPECT_FALSE(campaign_spec_from_json(stored).reader_canaries.has_value());
  EXPECT_EQ(to_json(campaign_spec_from_json(stored)), stored);
}

class ExecResult : public ::testing::Test {
 protected:
  RunResult read(const std::string& text) {
    replace_text(file_, text);
    return read_exec_result(file_);
  }
  std::string refusal(const std::string& text) {
    try {
      (void)read(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      return error.what();
    }
    return "";
  }
  TemporaryFolder folder_{"exec-result"};
  std::filesystem::path file_ = folder_.path() / "result.json";
};

const char* const evaluation = R"({"epoch":1,"step":3,"train_loss":0.5,"test_loss":"inf","test_accuracy":1})";

TEST_F(ExecResult, WholeResultIsRead) {
  const RunResult result = read(fmt::format(
      R"({{"status":"done","replicas":[[{0}],[{0}]],"steps":3,"final_digest":"d","last_loss":1.5}})",
      evaluation));
  ASSERT_EQ(result.replicas.size(), 2U);
  EXPECT_EQ(result.replicas[1][0].step, 3);
  EXPECT_EQ(result.replicas[1][0].train_loss, 0.5);
  EXPECT_FALSE(result.replicas[1][0].train_accuracy);
  EXPECT_TRUE(std::isinf(result.replicas[0][0].test_loss.value()));
  EXPECT_EQ(result.replica_digests, (Words{"d", "d"}));
  EXPECT_EQ(result.last_loss, "0x1.8p+0");
}

TEST_F(ExecResult, CappedLossAndTestTargetsAreReadWhereTheyAreGiven) {
  const std::string rest = R"(,"steps":3,"final_digest":"d"})";
  const RunResult without = read(fmt::format(R"({{"status":"done","replicas":[[{}]])", evaluation) + rest);
  EXPECT_FALSE(without.test_targets);
  EXPECT_FALSE(without.replicas[0][0].test_capped_loss);
  const std::string capped =
      R"([{"epoch":1,"step":3,"test_loss":"inf","test_accuracy":1,"test_capped_loss":2.25}])";
  const RunResult with = read(R"({"status":"done","test_targets":64,"replicas":[)" + capped + "]" + rest);
  EXPECT_EQ(with.test_targets, 64);
  EXPECT_EQ(with.replicas[0][0].test_capped_loss, 2.25);
}

TEST_F(ExecResult, NonFiniteNumbersAreTextsInPythonsOrTheJournalsWords) {
  for (const auto& [text, value] : std::map<std::string, double>{{"nan", NAN},
                                                                 {"NaN", NAN},
                                                                 {"-inf", -INFINITY},
                                                                 {"Infinity", INFINITY},
                                                                 {"-Infinity", -INFINITY}}) {
    const RunResult result = read(R"({"status":"nonfinite","steps":0,"last_loss":")" + text + "\"}");
    EXPECT_EQ(result.last_loss, hex_float(value)) << text;
  }
  EXPECT_NE(refusal(R"({"status":"nonfinite","steps":0,"last_loss":"much"})").find("last_loss"),
            std::string::npos);
}

TEST_F(ExecResult, RefusalsNameFileAndKey) {
  const std::string whole = fmt::format(R"("replicas":[[{}]])", evaluation);
  const std::pair<std::string, std::string> cases[] = {
      {"", "result.json"},
      {"{\"status\":\"done\",\"steps\":NaN}", "result.json"},
      {R"({"status":"well"})", "status: expected one of: done, rejected, nonfinite"},
      {R"({"status":"done","state":1})", "state: unknown key"},
      {R"({"status":"nonfinite"})", "steps: is missing"},
      {R"({"status":"done","steps":1,"final_digest":"d"})", "replicas: is missing or empty"},
      {R"({"status":"done","steps":1,"final_digest":"d","replicas":[[]]})",
       "replicas: a run that is done was evalu"},
      {R"({"status":"done","steps":-1,"final_digest":"d"})",
       "steps: expected a number of at least 0, found -1"},
      {R"({"status":"done","steps":1,)" + whole + "}", "final_digest: is missing"},
      {R"({"status":"done","steps":1,"test_targets":0,"final_digest":"d",)" + whole + "}",
       "test_targets: expected a number of at least 1, found 0"},
      {R"({"status":"done","steps":1,"replica_digests":["a","b"],"final_digest":"a",)" + whole + "}",
       "replica_digests: expected one for each of 1 replicas, found 2"},
      {fmt::format(R"({{"status":"done","steps":1,"final_digest":"d","replicas":[[{0},{0}],[{0}]]}})",
                   evaluation),
       "replicas: replica 1 has 1 evaluations, replica 0 has 2"},
      {R"({"status":"done","steps":1,"final_digest":"d","replicas":[[{"epoch":1,"step":2}]]})",
       "replicas/0: an evaluation has neither test_loss nor a metric"},
      {R"({"status":"done","steps":1,"final_digest":"d","replicas":[[{"epoch":1,"step":2,
          "lower_is_better":{"fid":1},"higher_is_better":{"fid":1}}]]})",
       "'fid' is in lower_is_better and in higher_is_better"},
      {R"({"status":"done","steps":1,"final_digest":"d","replicas":[[{"epoch":1,"step":2,
          "lower_is_better":{"test_accuracy":1}}]]})",
       "replicas[0][0].lower_is_better.test_accuracy: expected at most 16 metrics of your own"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(refusal(text).find(expected), std::string::npos) << text << "\n" << refusal(text);
    EXPECT_NE(refusal(text).find("result.json"), std::string::npos) << text;
  }
}

TEST_F(ExecResult, AMissingFileIsNamed) {
  try {
    (void)read_exec_result(folder_.path() / "none.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_NE(std::string(error.what()).find("none.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace bitrift::design::exec_runner_test
