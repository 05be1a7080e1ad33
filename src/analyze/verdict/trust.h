// Whether a campaign's verdicts may be believed at all.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyze/verdict/classify.h"

namespace bitrift::analyze {

/// Canaries that misbehave and clean runs that are called SDC more often than stated, one line each; empty
/// when all is well.
[[nodiscard]] std::vector<std::string> trust_problems(const std::vector<record::TrialRecord>& rows,
                                                      const std::map<std::string, ArmControls>& controls,
                                                      const Judging& judging);

}  // namespace bitrift::analyze
