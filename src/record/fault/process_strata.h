// Where ranks are to fail: the strata of a campaign whose faults are processes (docs/spec.md, "Ranks that
// fail").
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "record/fault/process_fault.h"
#include "record/json/json.h"

namespace bitrift::record {

/// How many points each phase has for a rank. The model, its cut into stages and the data decide.
struct KillPoints {
  std::int64_t steps_per_epoch = 0;
  std::vector<std::map<TrainingPhase, std::int64_t>> stages;  ///< of a rank that holds this stage
  /// 0 where the phase has none.
  [[nodiscard]] std::int64_t of(int stage, TrainingPhase phase) const;
  bool operator==(const KillPoints&) const = default;
};

/// Steps of a run, both included; the first step is 1.
struct StepRange {
  std::int64_t first = 1, last = 1;
  bool operator==(const StepRange&) const = default;
};

/// Reads a number, which is the last step, or {"first", "last"}. Throws Error(bad_input) with file, line and
/// key.
[[nodiscard]] StepRange step_range_from(const Document& document, const std::string& pointer);
[[nodiscard]] Json to_json(const StepRange& steps);

/// Each phase is a stratum.
struct ProcessStrata {
  std::vector<TrainingPhase> phases;
  std::optional<StepRange> steps = {};  ///< in which ranks fail; absent: all of a run
  int together = 1;                     ///< ranks that fail at the same point
  Ending how = Ending::kill;
  std::optional<KillPoints> points = {};  ///< of the arms; known once the campaign has begun
  /// Ranks that fail in one trial.
  [[nodiscard]] int failing() const noexcept;
};

/// Reads the value at /strata/process of a document that obeys the schema. Throws Error(bad_input) with file,
/// line and key.
[[nodiscard]] ProcessStrata process_strata_from(const Document& document);
[[nodiscard]] Json to_json(const ProcessStrata& strata);

/// {"steps_per_epoch", "stages": [{"forward": 1, ...}]}
[[nodiscard]] Json to_json(const KillPoints& points);
/// Throws Error(bad_file) for anything else.
[[nodiscard]] KillPoints kill_points_from_json(const Json& value);

}  // namespace bitrift::record
