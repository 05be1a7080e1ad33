// What arms are judged against, and whether the harness may be believed at all.
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "analyze/classify.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::Evaluation;
using record::OutcomeClass;
using record::TrialKind;
using record::TrialRecord;
using Rows = std::vector<const TrialRecord*>;

constexpr std::size_t kLeastControls = 2;
constexpr std::size_t kLeastEnvelopeRuns = 20;
constexpr const char* kZeroStepStratum = "control:zero";

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same_bits(const std::optional<double>& a, const std::optional<double>& b) {
  return a.has_value() == b.has_value() && (!a || same_bits(*a, *b));
}

const char* differing_metric(const Evaluation& a, const Evaluation& b) {
  if (a.epoch != b.epoch) return "epoch";
  if (a.step != b.step) return "step";
  if (!same_bits(a.train_loss, b.train_loss)) return "train_loss";
  if (!same_bits(a.train_accuracy, b.train_accuracy)) return "train_accuracy";
  if (!same_bits(a.test_loss, b.test_loss)) return "test_loss";
  if (!same_bits(a.test_accuracy, b.test_accuracy)) return "test_accuracy";
  return nullptr;
}

// What differs first between two runs that should be equal to the bit; "" when they are.
std::string first_difference(const record::RunResult& a, const record::RunResult& b) {
  if (a.steps != b.steps) return fmt::format("steps ({} and {})", a.steps, b.steps);
  if (a.replicas.size() != b.replicas.size()) return "number of replicas";
  for (std::size_t r = 0; r < a.replicas.size(); ++r) {
    if (a.replicas[r].size() != b.replicas[r].size())
      return fmt::format("number of evaluations of replica {}", r);
    for (std::size_t i = 0; i < a.replicas[r].size(); ++i) {
      const char* metric = differing_metric(a.replicas[r][i], b.replicas[r][i]);
      if (metric != nullptr) return fmt::format("{} of evaluation {} of replica {}", metric, i + 1, r);
    }
  }
  if (a.last_loss != b.last_loss) return "last_loss";
  if (a.replica_digests != b.replica_digests) return "replica_digests";
  if (a.final_digest != b.final_digest) return "final_digest";
  return "";
}

// The result of a run in which nothing was altered: it must have finished, with finite metrics.
const record::RunResult& clean_result(const TrialRecord& row) {
  const std::string what = row.failure ? row.failure->reason + ": " + row.failure->detail
                           : row.result && row.result->status != "done" ? row.result->status
                           : !row.result                                ? "no result"
                                                                        : "";
  if (!what.empty()) {
    fail(ErrorCode::conflict, "arm '{}': the clean run {} failed ({}), so nothing can be judged against it",
         row.id.arm, row.id.text(), what);
  }
  for (const auto& replica : row.result->replicas) {
    for (const Evaluation& e : replica) {
      if (!std::isfinite(e.train_loss.value_or(0)) || !std::isfinite(e.train_accuracy.value_or(0)) ||
          !std::isfinite(e.test_loss) || !std::isfinite(e.test_accuracy)) {
        fail(ErrorCode::conflict, "arm '{}': the clean run {} has a metric that is not finite", row.id.arm,
             row.id.text());
      }
    }
  }
  return *row.result;
}

CleanRun agreed(const std::string& arm, const Rows& rows, const std::string& judge) {
  const record::RunResult& first = clean_result(*rows.front());
  for (const TrialRecord* row : rows) {
    const std::string difference = first_difference(first, clean_result(*row));
    if (!difference.empty()) {
      fail(ErrorCode::conflict,
           "arm '{}': the no-flip runs {} and {} differ in {}: this arm does not repeat itself", arm,
           rows.front()->id.text(), row->id.text(), difference);
    }
  }
  CleanRun clean{first.final_digest, first.replica_digests, judged(first, judge)};
  if (clean.evaluations.empty() || clean.digest.empty()) {
    fail(ErrorCode::bad_file, "row {}: a no-flip run without evaluations or digest", rows.front()->id.text());
  }
  return clean;
}

Envelope envelope_of(const std::string& arm, const Rows& rows, const CleanRun& golden,
                     const std::string& judge) {
  if (rows.size() < kLeastEnvelopeRuns) {
    fail(ErrorCode::bad_input,
         "arm '{}' has {} envelope runs, at least {} are needed: let `bitrift campaign run` finish them", arm,
         rows.size(), kLeastEnvelopeRuns);
  }
  std::vector<std::vector<Evaluation>> runs;
  for (const TrialRecord* row : rows) {
    runs.push_back(judged(clean_result(*row), judge));
    if (runs.back().size() != golden.evaluations.size()) {
      fail(ErrorCode::conflict, "arm '{}': the envelope run {} has {} evaluations, the golden run has {}",
           arm, row->id.text(), runs.back().size(), golden.evaluations.size());
    }
  }
  return make_envelope(runs, 0.99, kLeastEnvelopeRuns);
}

// Golden's own values: what is loaded without a change gives exactly these.
Envelope limits_at_load(const std::string& arm, const CleanRun& clean) {
  if (clean.evaluations.size() != 1 || clean.evaluations.front().step != 0) {
    fail(ErrorCode::conflict, "arm '{}': its zero-step control must have one evaluation, at step 0", arm);
  }
  Limits limits;
  limits.test_loss_max = clean.evaluations.front().test_loss;
  limits.test_accuracy_min = clean.evaluations.front().test_accuracy;
  return {limits};
}

struct Canary {
  const char* stratum;
  const char* expected;
};
constexpr Canary kCanaries[] = {
    {"canary:nan", "crash"}, {"canary:negate", "SDC"}, {"canary:none", "bitwise"}};

// What is wrong with one canary; "" when it behaves.
std::string canary_problem(const Canary& canary, const TrialRecord& row, const ArmControls& controls,
                           const std::string& judge) {
  if (!row.landed) return "what it should change was not changed when loaded";
  try {
    const record::Outcome outcome = classify(row, controls, judge);
    const std::string found = outcome.outcome_class() == OutcomeClass::masked
                                  ? record::reason_name(outcome.reason)
                                  : record::outcome_class_name(outcome.outcome_class());
    if (found == canary.expected) return "";
    return fmt::format("must be {}, is {} ({})", canary.expected,
                       record::outcome_class_name(outcome.outcome_class()),
                       record::reason_name(outcome.reason));
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::map<std::string, ArmControls> controls_of(const std::vector<TrialRecord>& rows,
                                               const std::string& judge) {
  struct Found {
    Rows golden, zero_step, envelope;
  };
  std::map<std::string, Found> arms;
  for (const TrialRecord& row : rows) {
    Found& found = arms[row.id.arm];
    if (row.kind == TrialKind::envelope) {
      found.envelope.push_back(&row);
    } else if (row.kind == TrialKind::control) {
      (row.id.stratum == kZeroStepStratum ? found.zero_step : found.golden).push_back(&row);
    }
  }
  std::map<std::string, ArmControls> controls;
  for (const auto& [arm, found] : arms) {
    if (found.golden.size() < kLeastControls) {
      fail(ErrorCode::conflict,
           "arm '{}' has {} no-flip runs, at least {} are needed: let `bitrift campaign run` finish them",
           arm, found.golden.size(), kLeastControls);
    }
    if (found.zero_step.empty()) {
      fail(ErrorCode::conflict,
           "arm '{}' has no no-flip run of zero steps: let `bitrift campaign run` finish", arm);
    }
    ArmControls& of_arm = controls[arm];
    of_arm.golden = agreed(arm, found.golden, judge);
    of_arm.envelope = envelope_of(arm, found.envelope, of_arm.golden, judge);
    of_arm.zero_step_golden = agreed(arm, found.zero_step, judge);
    of_arm.zero_step = limits_at_load(arm, of_arm.zero_step_golden);
  }
  return controls;
}

std::vector<std::string> canary_problems(const std::vector<TrialRecord>& rows,
                                         const std::map<std::string, ArmControls>& controls,
                                         const std::string& judge) {
  std::vector<std::string> problems;
  for (const auto& [arm, of_arm] : controls) {
    for (const Canary& canary : kCanaries) {
      bool seen = false;
      for (const TrialRecord& row : rows) {
        if (row.kind != TrialKind::canary || row.id.arm != arm || row.id.stratum != canary.stratum) continue;
        seen = true;
        const std::string problem = canary_problem(canary, row, of_arm, judge);
        if (!problem.empty())
          problems.push_back(fmt::format("arm '{}': {}: {}", arm, canary.stratum, problem));
      }
      if (!seen) problems.push_back(fmt::format("arm '{}': {}: missing", arm, canary.stratum));
    }
  }
  return problems;
}

}  // namespace bitrift::analyze
