#include "analyze/verdict/trust.h"

#include "analyze/verdict/canaries.h"
#include "analyze/verdict/false_sdc.h"

namespace bitrift::analyze {

std::vector<std::string> trust_problems(const std::vector<record::TrialRecord>& rows,
                                        const std::map<std::string, ArmControls>& controls,
                                        const Judging& judging) {
  auto problems = canary_problems(rows, controls, judging);
  // What else may be wrong says nothing once the harness itself is in doubt.
  return problems.empty() ? false_sdc_problems(rows, controls, judging) : problems;
}

}  // namespace bitrift::analyze
