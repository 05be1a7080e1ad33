#include "analyze/verdict/trust.h"

#include "analyze/verdict/canaries.h"
#include "analyze/verdict/false_sdc.h"

namespace bitrift::analyze {

std::vector<std::string> trust_problems(const std::vector<record::TrialRecord>& rows,
                                        const std::map<std::string, ArmControls>& controls,
                                        const Judging& judging) {
  auto problems = canary_problems(rows, controls, judging);
  // Counts of clean runs mean nothing when the harness itself misbehaves.
  return problems.empty() ? false_sdc_problems(rows, controls, judging) : problems;
}

}  // namespace bitrift::analyze
