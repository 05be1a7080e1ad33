// Checks that faults whose outcome is known end as they must.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyze/verdict/classify.h"
#include "core/named_enum.h"

namespace bitrift::analyze {

enum class CanaryState {
  holds,       ///< it ended as required
  misbehaves,  ///< it did not, or it cannot be judged
  unjudged,    ///< it ran, but its arm lacks some clean runs against which it is judged
  not_run,
};
constexpr EnumNames<4> names_of(CanaryState) {
  return {"state of a canary", {"holds", "misbehaves", "unjudged", "not run"}};
}

/// One canary of one arm, in words only: for reports.
struct CanaryCheck {
  std::string arm, stratum;
  std::string altered;   ///< the change that it makes: "the weight and bias of the last layer negated"
  std::string required;  ///< "masked (bitwise), after a recovery"
  std::string found;     ///< the outcome: "crash (nonfinite)"; "" where it is not known
  std::string landing;   ///< whether its change took effect: "yes", "no, as required"; "" before it ran
  CanaryState state = CanaryState::not_run;
  std::string problem = {};  ///< the problem; "" for all states except misbehaves and not_run
  /// "arm 'data': canary:nan: missing"
  [[nodiscard]] std::string line() const;
};

/// Every canary of these arms, in the order in which they run: those that each arm must have, and those of
/// roles. controls: without an arm, nothing is judged there. planned: names of the strata of the canaries by
/// arm, where the campaign's plan is known; without it, canaries of roles that have not run are left out.
/// Throws Error(bad_file) for a canary of a name that this version does not know.
[[nodiscard]] std::vector<CanaryCheck> canary_checks(
    const std::vector<record::TrialRecord>& rows, const std::vector<std::string>& arms,
    const std::map<std::string, ArmControls>& controls, const Judging& judging,
    const std::map<std::string, std::vector<std::string>>& planned = {});

/// Checks the canaries of every arm that has controls (NaN first weight: crash; negated last layer after zero
/// steps: SDC; no flip: bitwise; all tensors of a role NaN: not bitwise, because the trainer must read them;
/// all landed), and those that the kind of fault has. Returns one line per problem, missing ones included;
/// empty when all behave.
[[nodiscard]] std::vector<std::string> canary_problems(const std::vector<record::TrialRecord>& rows,
                                                       const std::map<std::string, ArmControls>& controls,
                                                       const Judging& judging);

}  // namespace bitrift::analyze
