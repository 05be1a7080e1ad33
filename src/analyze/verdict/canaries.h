// Whether faults whose outcome is known end as they must.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyze/verdict/classify.h"

namespace bitrift::analyze {

/// Checks the canaries of every arm (NaN first weight: crash; negated last layer after zero steps: SDC; no
/// flip: bitwise; all tensors of a role NaN: not bitwise, because the trainer must read them; all landed),
/// and where ranks fail those of record::ProcessCanary (a fault that is never reached: bitwise; a recovery
/// that promises it: bitwise; no recovery: unrecovered). Returns one line per problem, missing ones included;
/// empty when all behave.
[[nodiscard]] std::vector<std::string> canary_problems(const std::vector<record::TrialRecord>& rows,
                                                       const std::map<std::string, ArmControls>& controls,
                                                       const Judging& judging);

}  // namespace bitrift::analyze
