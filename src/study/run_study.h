// Runs a study of checkpoints: all parts of its spec, from where an earlier start stopped.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "campaign/progress/progress.h"
#include "core/named_enum.h"
#include "record/json/json.h"
#include "study/cost/cost_summary.h"
#include "study/kill/kill_summary.h"
#include "study/policy/policy_summary.h"
#include "study/replay/replay_summary.h"
#include "study/study_summary.h"

namespace bitrift::study {

/// Ways to make a study misbehave, to show that its canaries notice it.
enum class StudyDrill {
  read_original,  ///< the reader gets the original in place of the damaged copy
  misread,        ///< the reader returns a wrong tensor for every file
};
constexpr EnumNames<2> names_of(StudyDrill) { return {"drill", {"read-original", "misread"}}; }

struct StudyOptions {
  std::filesystem::path spec, folder;
  std::optional<StudyDrill> drill = {};
  std::vector<std::string> command;  ///< for provenance
};

struct StudyReport {
  StudySpec spec;
  std::vector<KindSummary> kinds;
  std::vector<ReplayedKind> replays;
  std::vector<KilledKind> kills;
  std::vector<StateResult> states;
  CostSummary cost;
  std::vector<ModeSummary> policy;
  record::Json document;  ///< of summary.json
  std::filesystem::path rows, summary;
};

/// Writes rows and summary. Throws campaign::Misbehaviour, campaign::Interrupted, and Error as the parts do.
[[nodiscard]] StudyReport run_study(const StudyOptions& options, campaign::Progress& progress);

}  // namespace bitrift::study
