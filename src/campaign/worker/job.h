// Runs in a pool: requested, finished, lost.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "campaign/plan/plan.h"
#include "core/file.h"
#include "core/named_enum.h"
#include "record/run.h"
#include "record/trial.h"

namespace bitrift::campaign {

/// A run whose worker lost ranks on purpose, and which continues in a new worker.
struct RelaunchedRun {
  record::Relaunch from;
  std::vector<record::ProcessFault> faults = {};      ///< faults that have not struck
  std::shared_ptr<const TemporaryFolder> files = {};  ///< the folder that holds the files that `from` names
  std::string started = {};                           ///< UTC, start of the run
  double seconds = 0;                                 ///< seconds that earlier workers spent on it
};

/// Runs of one arm that one worker takes, one after another.
struct Job {
  std::size_t arm = 0;
  std::vector<RunKey> runs;
  std::size_t next = 0;                          ///< first run that is not over
  std::vector<record::Failure> failures = {};    ///< of runs[next] so far
  std::optional<RelaunchedRun> relaunched = {};  ///< runs[next] is in progress
};

/// A run that is over. Exactly one of result and failure is set.
struct Ran {
  record::TrialSpec spec;
  std::vector<std::string> altered = {};  ///< tensors that its faults alter, sorted
  std::optional<record::RunResult> result;
  std::optional<record::Failure> failure;
  std::string started;  ///< UTC
  double seconds = 0;   ///< from request to answer
  int attempts = 1;
};

/// What a worker was doing when it was lost.
enum class Phase {
  start,
  check,
  run,
  idle,  ///< between two runs
};
constexpr EnumNames<4> names_of(Phase) { return {"phase of a worker", {"start", "check", "run", "idle"}}; }

/// A worker that died or hung.
struct Incident {
  Phase phase = Phase::run;
  std::string id;  ///< of the run; "" in other phases
  std::string arm;
  int worker = 0;  ///< slot: names the log and the private copy
  int pid = 0;
  record::Failure failure;
  int attempt = 0;
};

/// Whether two failures of a run count as the same: equal reason and signal.
[[nodiscard]] inline bool same_failure(const record::Failure& first, const record::Failure& second) {
  return first.reason == second.reason && first.signal == second.signal;
}

/// A text without the place of a private copy, which says nothing about the run and would make equal rows
/// differ.
[[nodiscard]] inline std::string without_place(std::string text, const std::filesystem::path& copy) {
  const std::string place = copy.string();
  for (auto at = text.find(place); at != std::string::npos; at = text.find(place)) {
    text.replace(at, place.size(), "the altered copy");
  }
  return text;
}

}  // namespace bitrift::campaign
