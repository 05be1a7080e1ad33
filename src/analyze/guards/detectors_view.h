// The scoreboard of guards: what each of them noticed of one list of faults (docs/detectors.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyze/guards/guard_actions.h"
#include "analyze/guards/share.h"
#include "analyze/verdict/trust.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"
#include "record/outcome.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// The runs with an alarm, by the outcome that the same fault has in the arm without guards.
using AlarmsByOutcome = std::map<record::OutcomeClass, Share>;

/// One arm with guards, and the arm without guards that is otherwise the same.
struct Detector {
  std::string arm, beside;
  record::GuardSpec guards;
  AlarmsByOutcome all;                            ///< over all draws that both arms have
  std::map<std::string, AlarmsByOutcome> fields;  ///< the same by bit field (of a fault model: its bits)
  std::map<std::string, AlarmsByOutcome> roles;   ///< the same by the stratum's role
  Share clean;  ///< one golden run of each data order, envelope and held-out runs
  /// For the alarms on SDCs and crashes: steps until the first, after the resume or, where a number is struck
  /// while it is computed, from that step on (1: in it). Absent: none, or not known.
  std::optional<double> median_steps, most_steps;
  /// Median over the clean runs of (duration of steps and evaluations) / steps; absent: without a clean run.
  std::optional<double> step_seconds;
  std::optional<double> cost;                ///< step_seconds divided by that of `beside`
  std::optional<GuardActions> actions = {};  ///< where alarms change what the run does next
};

struct Scoreboard {
  std::string campaign;
  double confidence = 0.95;
  std::vector<Detector> detectors;    ///< in the order of the arms
  std::vector<std::string> unpaired;  ///< arms with guards for which no such arm exists
};

/// rows: all of the journal; draws count up to the first without a row. resumed: by arm, the steps that the
/// base had taken; alarms count steps from the beginning of the training. Throws as observe(), and
/// Error(bad_input) when no arm has a guard.
[[nodiscard]] Scoreboard scoreboard_of(const std::vector<record::TrialRecord>& rows,
                                       const design::CampaignSpec& spec, const Trust& trust,
                                       const std::map<std::string, std::int64_t>& resumed);
[[nodiscard]] std::string table(const Scoreboard& board);
/// Schema "bitrift/detectors/1" (docs/detectors.md); the caller adds "provenance".
[[nodiscard]] record::Json to_json(const Scoreboard& board);

}  // namespace bitrift::analyze
