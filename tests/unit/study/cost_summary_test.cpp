#include "study/cost/cost_summary.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bitrift::study::cost_summary_test {
namespace {

using record::SaveMode;
using ::testing::HasSubstr;

const FileKind hdf5{Format::hdf5, FileWriter::bitrift, ".h5"};
const FileKind raw{Format::raw, FileWriter::native, ".raw"};
const FileKind torch{Format::pytorch, FileWriter::native, ".pt"};

StudySpec spec_of(std::vector<Format> formats) {
  StudySpec spec;
  spec.formats = std::move(formats);
  spec.writers = {FileWriter::bitrift, FileWriter::native};
  spec.parts = {StudyPart::cost};
  spec.cost.ranks = {1, 2, 3, 4};
  spec.cost.models = {record::TrainingSpec()};
  spec.cost.cores = 2;
  return spec;
}

std::vector<TimedKind> cases_of(const StudySpec& spec) {
  std::map<std::string, bool> installed;
  for (const char* word : names_of(Format{}).words) installed[word] = true;
  return cost_cases(spec, installed);
}

struct Rows {
  std::vector<StudyRow> rows;
  CostResult& add(const FileKind& kind, const CostCase& what, std::uint64_t turn, double block) {
    CostResult result;
    result.what = what;
    result.turn = turn;
    result.block = block;
    result.bytes = what.model == 0 ? 200'000'000 : 20'000'000;
    rows.push_back({kind.format, kind.writer, result});
    return std::get<CostResult>(rows.back().result);
  }
};

const CostLine& line(const CostSummary& summary, const FileKind& kind, const CostCase& what) {
  const auto at = std::find_if(summary.lines.begin(), summary.lines.end(), [&](const CostLine& one) {
    return one.timed.kind == kind && one.timed.what == what;
  });
  if (at == summary.lines.end()) throw std::runtime_error("no such line");
  return *at;
}

TEST(CostCases, AreAllWaysToSaveEachOnce) {
  const std::vector<TimedKind> cases = cases_of(spec_of({Format::hdf5, Format::pytorch, Format::dcp}));
  const auto count = [&](const TimedKind& timed) { return std::count(cases.begin(), cases.end(), timed); };
  for (const std::size_t model : {0, 1}) {
    EXPECT_EQ(count({hdf5, {SaveMode::sync, SaveRoute::gather, 1, model}}), 1);
    EXPECT_EQ(count({hdf5, {SaveMode::sync, SaveRoute::shared, 1, model}}), 0);
    EXPECT_EQ(count({hdf5, {SaveMode::sync, SaveRoute::shared, 4, model}}), 1);
  }
  EXPECT_EQ(count({hdf5, {}}), 1);
  EXPECT_EQ(count({hdf5, {.mode = SaveMode::async}}), 1);
  EXPECT_EQ(count({raw, {.mode = SaveMode::async}}), 1);
  EXPECT_EQ(count({{Format::dcp, FileWriter::native, ""}, {.mode = SaveMode::async}}), 1);
  EXPECT_EQ(count({torch, {.mode = SaveMode::async}}), 0);
}

TEST(CostCases, ReplicasSaveWithAndWithoutShardsWhereTheyAreAskedFor) {
  StudySpec spec = spec_of({Format::hdf5});
  const std::size_t before = cases_of(spec).size();
  spec.cost.shard_optimizer = {false, true};
  const std::vector<TimedKind> cases = cases_of(spec);
  EXPECT_EQ(cases.size(), before + 3 * 2 * 3);  // ranks 2 to 4, with and without, gather, shared and async
  const auto count = [&](const CostCase& what) {
    return std::count(cases.begin(), cases.end(), TimedKind{hdf5, what});
  };
  for (const bool shards : {false, true}) {
    EXPECT_EQ(count({SaveMode::sync, SaveRoute::shared, 2, 0, shards}), 1);
    EXPECT_EQ(count({SaveMode::async, SaveRoute::gather, 4, 0, shards}), 1);
    EXPECT_EQ(count({SaveMode::sync, SaveRoute::gather, 1, 0, shards}), 0);
  }
  std::set<std::string> ids;
  for (const TimedKind& timed : cases) ids.insert(cost_id(timed.kind, timed.what, 0));
  EXPECT_EQ(ids.size(), cases.size());
  const std::string way = row_id(StudyPart::cost, hdf5) + "/sync/shared/2/0/";
  for (const char* end : {"0", "replicas/0", "shards/0"}) EXPECT_TRUE(ids.contains(way + end)) << end;

  Rows rows;
  rows.add(hdf5, {SaveMode::sync, SaveRoute::gather, 2, 0, true}, 0, 0.3);
  rows.add(hdf5, {SaveMode::sync, SaveRoute::gather, 2, 0, false}, 0, 0.4);
  for (const StudyRow& row : rows.rows) EXPECT_EQ(to_json(study_row_from_json(to_json(row))), to_json(row));
  const CostSummary summary = summarize_cost(spec, cases, rows.rows);
  EXPECT_EQ(line(summary, hdf5, {SaveMode::sync, SaveRoute::gather, 2, 0, true}).block.median, 0.3);
  EXPECT_EQ(line(summary, hdf5, {SaveMode::sync, SaveRoute::gather, 2}).turns, 0U);
  EXPECT_THAT(cost_table(summary), HasSubstr(" replicas, shards\n"));
}

TEST(CostCases, LeaveOutWhatIsNotInstalled) {
  const StudySpec spec = spec_of({Format::pytorch, Format::npz});
  const auto cases = cost_cases(spec, {{"pytorch", false}, {"npz", true}});
  EXPECT_TRUE(std::none_of(cases.begin(), cases.end(), [](const TimedKind& one) {
    return one.kind.format == Format::pytorch && one.kind.writer == FileWriter::native;
  }));
}

TEST(CostCases, ParallelHdf5IsTimedWithSeveralRanksWhereItIsInstalled) {
  const FileKind parallel{Format::hdf5_parallel, FileWriter::native, ""};
  StudySpec spec = spec_of({Format::hdf5});
  spec.cost.ranks = {1, 2, 4};
  const auto count = [&](const CostCase& what) {
    const std::vector<TimedKind> cases = cases_of(spec);
    return std::count(cases.begin(), cases.end(), TimedKind{parallel, what});
  };
  for (const SaveRoute route : {SaveRoute::collective, SaveRoute::independent}) {
    EXPECT_EQ(count({SaveMode::sync, route, 1}), 0);
    EXPECT_EQ(count({SaveMode::sync, route, 2}), 1);
    EXPECT_EQ(count({SaveMode::sync, route, 4}), 1);
  }
  EXPECT_TRUE(summarize_cost(spec, cases_of(spec), {}).missing.empty());

  Rows rows;
  rows.add(raw, {.mode = SaveMode::sync}, 0, 0.1);
  const auto without = cost_cases(spec, {{"hdf5", true}, {"hdf5-parallel", false}});
  const CostSummary summary = summarize_cost(spec, without, rows.rows);
  ASSERT_EQ(summary.missing.size(), 1U);
  EXPECT_TRUE(summary.missing.front() == parallel);
  EXPECT_THAT(cost_table(summary), HasSubstr("hdf5-parallel native   not installed\n"));
  EXPECT_EQ(cost_json(summary)["not_installed"].dump(), R"(["hdf5-parallel"])");

  spec.cost.ranks = {1};
  EXPECT_TRUE(summarize_cost(spec, cases_of(spec), {}).missing.empty());
  EXPECT_EQ(count({SaveMode::sync, SaveRoute::collective, 1}), 0);
}

TEST(CostSummary, ComparesWithinATurn) {
  const StudySpec spec = spec_of({Format::hdf5, Format::pytorch});
  Rows rows;
  // The machine is twice as slow in the second turn; raw is the reference.
  for (const std::uint64_t turn : {0, 1, 2}) {
    const double slow = turn == 1 ? 1.9 : 1;
    rows.add(raw, {.mode = SaveMode::sync}, turn, 0.1 * slow);
    rows.add(hdf5, {.mode = SaveMode::sync}, turn, 0.125 * slow);
    rows.add(torch, {.mode = SaveMode::sync}, turn, 0.25 * (turn == 2 ? 3 : slow));
  }
  const CostSummary summary = summarize_cost(spec, cases_of(spec), rows.rows);
  const CostLine& ours = line(summary, hdf5, {.mode = SaveMode::sync});
  EXPECT_EQ(ours.turns, 3U);
  EXPECT_NEAR(ours.block.median, 0.125, 1e-12);
  EXPECT_NEAR(ours.as_fast_as_raw->spread.least, 0.8, 1e-12);
  EXPECT_NEAR(ours.as_fast_as_raw->spread.most, 0.8, 1e-12);
  EXPECT_FALSE(ours.as_fast_as_raw->unstable);
  EXPECT_NEAR(ours.as_fast_as_torch_save->spread.median, 2, 1e-12);
  EXPECT_TRUE(ours.as_fast_as_torch_save->unstable);
  EXPECT_THAT(cost_table(summary), HasSubstr("0.80 (0.80 .. 0.80)"));
}

TEST(CostSummary, ASaveCostsWhatItStopsAndWhatItSlows) {
  const StudySpec spec = spec_of({Format::hdf5});
  Rows rows;
  rows.add(hdf5, {}, 0, 0).step = 0.1;
  CostResult& behind = rows.add(hdf5, {.mode = SaveMode::async}, 0, 0.03);
  behind.step = 0.11;
  behind.every = 10;
  const CostSummary summary = summarize_cost(spec, cases_of(spec), rows.rows);
  EXPECT_NEAR(line(summary, hdf5, {.mode = SaveMode::async}).cost->median, 0.03 + 0.01 * 10, 1e-12);
  EXPECT_FALSE(line(summary, hdf5, {}).cost);
}

TEST(CostSummary, PredictsMoreRanksFromOneAndTwo) {
  StudySpec spec = spec_of({Format::hdf5});
  spec.cost.cluster = Cluster{200'000'000, 1e11, 2e9, 1e10, 8};
  Rows rows;
  for (const SaveRoute route : {SaveRoute::gather, SaveRoute::shared}) {
    const CostModel truth{route, 2, 0.01, 0.002, 8e-10, route == SaveRoute::gather ? 5e-10 : 4e-10};
    for (const std::size_t model : {0, 1}) {
      for (const int ranks : {1, 2, 3, 4}) {
        // With one rank there is one route.
        if (ranks == 1 && route == SaveRoute::shared) continue;
        CostResult& row = rows.add(hdf5, {SaveMode::sync, route, ranks, model}, 0, 0);
        row.block = truth.seconds(ranks, static_cast<double>(row.bytes));
      }
    }
  }
  const CostSummary summary = summarize_cost(spec, cases_of(spec), rows.rows);
  ASSERT_EQ(summary.models.size(), 2U);
  std::size_t measured = 0, modelled = 0;
  for (const Prediction& one : summary.predictions) {
    if (!one.measured) {
      ++modelled;
      continue;
    }
    ++measured;
    if (one.route == SaveRoute::gather) {
      EXPECT_NEAR(one.seconds / *one.measured, 1, 1e-6);
    }
  }
  EXPECT_EQ(measured, 8U);
  EXPECT_EQ(modelled, 14U);
  EXPECT_THAT(cost_table(summary), HasSubstr("gather with 4096 ranks, 200000000 bytes"));
  EXPECT_EQ(cost_json(summary)["predictions"].size(), 22U);
}

}  // namespace
}  // namespace bitrift::study::cost_summary_test
