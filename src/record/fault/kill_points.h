// The number of points at which a rank can fail.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "record/fault/process_fault.h"
#include "record/json/json.h"

namespace bitrift::record {

/// The number of points of each phase for a rank. They depend on the model, its cut into stages and the data.
struct KillPoints {
  std::int64_t steps_per_epoch = 0;
  std::vector<std::map<TrainingPhase, std::int64_t>> stages;  ///< for a rank that holds this stage
  /// 0 if the phase has none.
  [[nodiscard]] std::int64_t of(int stage, TrainingPhase phase) const;
  bool operator==(const KillPoints&) const = default;
};

/// {"steps_per_epoch", "stages": [{"forward": 1, ...}]}
[[nodiscard]] Json to_json(const KillPoints& points);
/// Throws Error(bad_file) for anything else.
[[nodiscard]] KillPoints kill_points_from_json(const Json& value);

}  // namespace bitrift::record
