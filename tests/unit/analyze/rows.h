// Rows made by hand for the tests of this room.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyze/verdict/classify.h"
#include "record/trial.h"

namespace bitrift::analyze::testing {

inline constexpr std::int64_t kStepsPerEpoch = 20;

inline constexpr std::int64_t kTargets = 1000;

/// An evaluation after `epochs` epochs; zero epochs carry no training metrics. The capped loss is the loss.
inline record::Evaluation evaluation(std::int64_t epochs, double train_loss, double train_accuracy,
                                     double test_loss, double test_accuracy) {
  record::Evaluation e;
  e.epoch = 5 + epochs;
  e.step = epochs * kStepsPerEpoch;
  if (epochs > 0) {
    e.train_loss = train_loss;
    e.train_accuracy = train_accuracy;
  }
  e.test_loss = test_loss;
  e.test_capped_loss = test_loss;
  e.test_accuracy = test_accuracy;
  return e;
}

inline record::TrialRecord row(record::TrialKind kind, const std::string& arm, const std::string& stratum,
                               std::uint64_t draw) {
  record::TrialRecord record;
  record.kind = kind;
  record.id = {arm, stratum, draw};
  record.landed = true;
  return record;
}

inline record::RunResult result(const std::vector<std::vector<record::Evaluation>>& replicas,
                                const std::string& digest) {
  record::RunResult result;
  result.replicas = replicas;
  result.final_digest = digest;
  result.test_targets = kTargets;
  result.replica_digests.assign(replicas.size(), digest);
  if (!replicas.empty() && !replicas.front().empty()) result.steps = replicas.front().back().step;
  return result;
}

/// A finished run.
inline record::TrialRecord finished(record::TrialKind kind, const std::string& arm,
                                    const std::string& stratum, std::uint64_t draw,
                                    const std::vector<std::vector<record::Evaluation>>& replicas,
                                    const std::string& digest) {
  record::TrialRecord record = row(kind, arm, stratum, draw);
  record.result = result(replicas, digest);
  return record;
}

/// Controls, envelope and canaries of an arm with one evaluation of (loss 0.1, accuracy 0.97, loss 0.2,
/// accuracy 0.95); envelope runs spread by up to 0.019 around it, zero-step runs have test loss 0.3 and
/// accuracy 0.9.
inline std::vector<record::TrialRecord> clean_arm(const std::string& arm, std::size_t replicas = 1) {
  using record::TrialKind;
  const auto all = [&](const record::Evaluation& e) {
    return std::vector<std::vector<record::Evaluation>>(replicas, {e});
  };
  const record::Evaluation golden = evaluation(1, 0.1, 0.97, 0.2, 0.95);
  const record::Evaluation at_load = evaluation(0, 0, 0, 0.3, 0.9);
  std::vector<record::TrialRecord> rows;
  rows.push_back(finished(TrialKind::control, arm, "control", 0, all(golden), "golden"));
  rows.push_back(finished(TrialKind::control, arm, "control", 1, all(golden), "golden"));
  rows.push_back(finished(TrialKind::control, arm, "control:zero", 0, all(at_load), "base"));
  for (std::uint64_t i = 0; i < 20; ++i) {
    const double shift = 0.001 * static_cast<double>(i);
    rows.push_back(finished(TrialKind::envelope, arm, "envelope", i,
                            all(evaluation(1, 0.1 + shift, 0.97 - shift, 0.2 + shift, 0.95 - shift)),
                            "envelope" + std::to_string(i)));
  }
  rows.push_back(row(TrialKind::canary, arm, "canary:nan", 0));
  rows.back().result = record::RunResult{};
  rows.back().result->status = record::RunStatus::nonfinite;
  rows.push_back(
      finished(TrialKind::canary, arm, "canary:negate", 0, all(evaluation(0, 0, 0, 9, 0.01)), "negated"));
  rows.push_back(finished(TrialKind::canary, arm, "canary:none", 0, all(golden), "golden"));
  return rows;
}

}  // namespace bitrift::analyze::testing
