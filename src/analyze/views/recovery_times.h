// The duration and the cost of recoveries, by the rank that failed (docs/rank-failure.md).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/named_enum.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// The parts of record::RecoveryTimes, in the order in which they pass, and their sum.
enum class RecoveryPart { detect, revoke, agree, shrink, respawn, state, redo, total };
constexpr EnumNames<8> names_of(RecoveryPart) {
  return {"part of a recovery", {"detect", "revoke", "agree", "shrink", "respawn", "state", "redo", "total"}};
}
inline constexpr std::size_t recovery_parts = names_of(RecoveryPart{}).words.size();

/// Which rank failed. If several ranks fail in a trial, rank 0 counts. Storms are not sorted by it.
enum class Victim { rank_0, another, any };
constexpr EnumNames<3> names_of(Victim) { return {"victim", {"rank 0", "another rank", "any rank"}}; }

struct VictimClass {
  Victim victim = Victim::another;
  /// The stage that the victims hold. Absent where the arm has one stage, or victims hold different ones, and
  /// in storms.
  std::optional<int> stage = {};
  auto operator<=>(const VictimClass&) const = default;
};

/// Over trials; the value of a trial is the sum over its recoveries.
struct Spread {
  std::uint64_t n = 0;                   ///< trials for which the value is known; if 0, the other members
                                         ///< mean nothing
  double median = 0, p95 = 0, most = 0;  ///< quantile()
};

/// The trials of one arm, phase or storm, and class of victims that recovered from the failure.
struct RecoveryLine {
  std::string arm;
  std::string phase;  ///< or a storm: the field of the stratum
  VictimClass victims;
  std::uint64_t trials = 0;
  std::array<Spread, recovery_parts> milliseconds;  ///< detect and total: of trials that know when the
                                                    ///< failure began
  Spread steps_lost, steps_redone, bytes_moved;
  [[nodiscard]] const Spread& part(RecoveryPart one) const {
    return milliseconds[static_cast<std::size_t>(one)];
  }
};

/// The second key of a line of recoveries, after its arm.
enum class RecoveryPlace {
  phase,  ///< and a class of victims
  storm,
};
constexpr EnumNames<2> names_of(RecoveryPlace) { return {"place of a recovery", {"phase", "storm"}}; }

/// Sorted by victims; classes without a trial that recovered are left out. rows: trials of this arm and
/// place; field: of their stratum.
[[nodiscard]] std::vector<RecoveryLine> recovery_lines(const std::vector<const record::TrialRecord*>& rows,
                                                       const design::Arm& arm, const std::string& field,
                                                       RecoveryPlace place);

/// Two tables: times, then steps and bytes. Empty without a line.
[[nodiscard]] std::string recovery_tables(const std::vector<RecoveryLine>& lines, RecoveryPlace place);
/// [{"arm", "phase", "victim", "stage", "trials", "detect": {"n", "median_ms", "p95_ms"}, ...,
/// "steps_lost": {"median", "max"}, "steps_redone", "bytes_moved": {"median"}}]
[[nodiscard]] record::Json to_json(const std::vector<RecoveryLine>& lines);

}  // namespace bitrift::analyze
