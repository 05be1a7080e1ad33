#include "analyze/verdict/controls.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/error.h"
#include "record/stratum_name.h"

namespace bitrift::analyze {
namespace {

using record::Evaluation;
using record::Metric;
using record::TrialKind;
using record::TrialRecord;
using Rows = std::vector<const TrialRecord*>;

constexpr std::size_t kLeastControls = 2;
constexpr std::size_t kLeastEnvelopeRuns = 20;

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same_bits(const std::optional<double>& a, const std::optional<double>& b) {
  return a.has_value() == b.has_value() && (!a || same_bits(*a, *b));
}

std::string differing_metric(const Evaluation& a, const Evaluation& b) {
  if (a.epoch != b.epoch) return "epoch";
  if (a.step != b.step) return "step";
  for (const Evaluation* one : {&a, &b}) {
    for (const Metric& metric : record::metrics_in(*one)) {
      if (!same_bits(metric.value_in(a), metric.value_in(b))) return metric.name();
    }
  }
  return "";
}

// The first difference between two runs that should be equal to the bit; "" when they are equal.
std::string first_difference(const record::RunResult& a, const record::RunResult& b) {
  if (a.steps != b.steps) return fmt::format("steps ({} and {})", a.steps, b.steps);
  if (a.replicas.size() != b.replicas.size()) return "number of replicas";
  for (std::size_t r = 0; r < a.replicas.size(); ++r) {
    if (a.replicas[r].size() != b.replicas[r].size())
      return fmt::format("number of evaluations of replica {}", r);
    for (std::size_t i = 0; i < a.replicas[r].size(); ++i) {
      const std::string metric = differing_metric(a.replicas[r][i], b.replicas[r][i]);
      if (!metric.empty()) return fmt::format("{} of evaluation {} of replica {}", metric, i + 1, r);
    }
  }
  if (a.last_loss != b.last_loss) return "last_loss";
  if (a.replica_digests != b.replica_digests) return "replica_digests";
  if (a.final_digest != b.final_digest) return "final_digest";
  return "";
}

// The result of a run in which nothing was altered: it must have finished, with finite metrics.
const record::RunResult& clean_result(const TrialRecord& row) {
  const std::string what =
      row.failure ? fmt::format("{}: {}", name_of(row.failure->reason), row.failure->detail)
      : row.result && row.result->status != record::RunStatus::done ? name_of(row.result->status)
      : !row.result                                                 ? "no result"
                                                                    : "";
  if (!what.empty()) {
    fail(ErrorCode::conflict, "arm '{}': the clean run {} failed ({}), so nothing can be judged against it",
         row.id.arm, row.id.text(), what);
  }
  for (const auto& replica : row.result->replicas) {
    for (const Evaluation& e : replica) {
      for (const Metric& metric : record::metrics_in(e)) {
        if (std::isfinite(*metric.value_in(e))) continue;
        fail(ErrorCode::conflict,
             "arm '{}': {} of the clean run {} is not finite, so nothing can be judged against it: resume "
             "from a base that trains without overflow, or leave out what makes it overflow",
             row.id.arm, metric.name(), row.id.text());
      }
    }
  }
  return *row.result;
}

// The worse of two values: NaN before any number.
double worse(double a, double b, bool larger_is_worse) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  return larger_is_worse ? std::max(a, b) : std::min(a, b);
}

CleanRun agreed(const std::string& arm, const Rows& rows, design::Judge judge) {
  const record::RunResult& first = clean_result(*rows.front());
  for (const TrialRecord* row : rows) {
    const std::string difference = first_difference(first, clean_result(*row));
    if (!difference.empty()) {
      fail(ErrorCode::conflict,
           "arm '{}': the no-flip runs {} and {} differ in {}: this arm is not reproducible", arm,
           rows.front()->id.text(), row->id.text(), difference);
    }
  }
  CleanRun clean{first.final_digest, first.replica_digests, judged(first, judge)};
  if (clean.evaluations.empty() || clean.digest.empty()) {
    fail(ErrorCode::bad_file, "row {}: a no-flip run without evaluations or digest", rows.front()->id.text());
  }
  return clean;
}

// The evaluations of the clean runs that calibrate, up to the horizon.
std::vector<Trajectory> clean_runs(const std::string& arm, const Rows& rows, std::size_t horizon,
                                   std::size_t evaluations, design::Judge judge) {
  if (rows.size() < kLeastEnvelopeRuns) {
    fail(ErrorCode::bad_input,
         "arm '{}' has {} envelope runs, at least {} are needed: let `bitrift campaign run` finish them", arm,
         rows.size(), kLeastEnvelopeRuns);
  }
  std::vector<Trajectory> runs;
  for (const TrialRecord* row : rows) {
    runs.push_back(judged(clean_result(*row), judge));
    if (runs.back().size() != evaluations) {
      fail(ErrorCode::conflict, "arm '{}': the envelope run {} has {} evaluations, the golden run has {}",
           arm, row->id.text(), runs.back().size(), evaluations);
    }
    runs.back().resize(horizon);
  }
  return runs;
}

std::size_t horizon_of(const std::string& arm, std::size_t evaluations, const Judging& judging) {
  const std::size_t horizon = judging.horizon.value_or(evaluations);
  if (horizon >= 1 && horizon <= evaluations) return horizon;
  fail(ErrorCode::bad_input, "arm '{}': horizon {}: its runs have evaluations 1 to {}", arm, horizon,
       evaluations);
}

/// The rows of one arm, by kind.
struct Found {
  std::map<int, Rows> golden;  // by data order
  Rows zero_step, envelope;
};

std::vector<CleanRun> golden_runs(const std::string& arm, const Found& found, design::Judge judge) {
  std::vector<CleanRun> golden;
  const int orders = found.golden.empty() ? 1 : found.golden.rbegin()->first + 1;
  for (int order = 0; order < orders; ++order) {
    const auto rows = found.golden.find(order);
    const std::size_t count = rows == found.golden.end() ? 0 : rows->second.size();
    if (count < kLeastControls) {
      fail(ErrorCode::conflict,
           "arm '{}' has {} no-flip runs{}, at least {} are needed: let `bitrift campaign run` finish them",
           arm, count, order == 0 ? "" : fmt::format(" of data order {}", order), kLeastControls);
    }
    golden.push_back(agreed(arm, rows->second, judge));
    if (golden.back().evaluations.size() == golden.front().evaluations.size()) continue;
    fail(ErrorCode::conflict, "arm '{}': the golden runs of data orders 0 and {} have {} and {} evaluations",
         arm, order, golden.front().evaluations.size(), golden.back().evaluations.size());
  }
  return golden;
}

bool measured(const std::vector<Trajectory>& clean, const Metric& metric) {
  return std::any_of(clean.begin(), clean.end(),
                     [&](const Trajectory& run) { return metric.value_in(run.back()).has_value(); });
}

// By default, the accuracy and the capped loss, where the runs have them, and all custom metrics are judged;
// the test loss, if there are none of these.
std::vector<Metric> judged_metrics(const std::vector<Trajectory>& clean, std::vector<Metric> metrics) {
  const bool chosen = metrics != record::default_metrics();
  if (metrics.size() < 2) return metrics;
  for (const Metric& metric : record::default_metrics()) {
    if (!measured(clean, metric)) std::erase(metrics, metric);
  }
  if (!chosen) {
    for (const Metric& metric : record::metrics_in(clean.front().back())) {
      if (metric.is_custom()) metrics.push_back(metric);
    }
  }
  if (metrics.empty()) metrics.emplace_back(Metric::test_loss);
  return metrics;
}

ArmControls controls_of_arm(const std::string& arm, const Found& found, const Judging& judging) {
  ArmControls controls;
  controls.golden = golden_runs(arm, found, judging.judge);
  if (found.zero_step.empty()) {
    fail(ErrorCode::conflict, "arm '{}' has no no-flip run of zero steps: let `bitrift campaign run` finish",
         arm);
  }
  controls.zero_step = agreed(arm, found.zero_step, judging.judge);
  const Trajectory& loaded = controls.zero_step.evaluations;
  if (loaded.size() != 1 || loaded.front().step != 0) {
    fail(ErrorCode::conflict, "arm '{}': its zero-step control must have one evaluation, at step 0", arm);
  }
  const std::size_t evaluations = controls.golden.front().evaluations.size();
  controls.horizon = horizon_of(arm, evaluations, judging);
  const auto clean = clean_runs(arm, found.envelope, controls.horizon, evaluations, judging.judge);
  try {
    controls.calibration.emplace(clean, judged_metrics(clean, judging.metrics), judging.level,
                                 found.golden.at(0).front()->result->test_targets);
  } catch (const Error& error) {
    fail(error.code(), "arm '{}': {}", arm, error.what());
  }
  return controls;
}

}  // namespace

Trajectory judged(const record::RunResult& result, design::Judge judge) {
  if (result.replicas.empty()) fail(ErrorCode::bad_file, "run {}: the result holds no replica", result.id);
  Trajectory run = result.replicas.front();
  for (const auto& replica : result.replicas) {
    if (replica.size() != run.size()) {
      fail(ErrorCode::bad_file, "run {}: replicas have {} and {} evaluations", result.id, run.size(),
           replica.size());
    }
    if (judge == design::Judge::rank0) continue;
    for (std::size_t i = 0; i < run.size(); ++i) {
      for (const Metric& metric : record::metrics_in(replica[i])) {
        const double other = *metric.value_in(replica[i]);
        const auto own = metric.value_in(run[i]);
        const bool larger_is_worse = metric.better() == record::Better::lower;
        metric.set(run[i], own ? worse(*own, other, larger_is_worse) : other);
      }
    }
  }
  return run;
}

std::map<std::string, ArmControls> controls_of(const std::vector<TrialRecord>& rows, const Judging& judging) {
  std::map<std::string, Found> arms;
  for (const TrialRecord& row : rows) {
    Found& found = arms[row.id.arm];
    if (row.kind == TrialKind::envelope) found.envelope.push_back(&row);
    if (row.kind != TrialKind::control) continue;
    (row.id.stratum == record::zero_step_stratum ? found.zero_step : found.golden[row.order]).push_back(&row);
  }
  std::map<std::string, ArmControls> controls;
  for (const auto& [arm, found] : arms) controls.emplace(arm, controls_of_arm(arm, found, judging));
  return controls;
}

}  // namespace bitrift::analyze
