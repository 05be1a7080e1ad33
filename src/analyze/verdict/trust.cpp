#include "analyze/verdict/trust.h"

#include "analyze/verdict/canaries.h"
#include "core/error.h"

namespace bitrift::analyze {

Trust trust_of(const std::vector<record::TrialRecord>& rows, const Judging& judging) {
  Trust trust{judging, controls_of(rows, judging), {}, {}};
  trust.problems = canary_problems(rows, trust.controls, judging);
  // Counts of clean runs mean nothing when the harness is wrong.
  if (!trust.problems.empty()) return trust;
  for (const auto& [arm, controls] : trust.controls)
    trust.false_sdc[arm] = false_sdc_of(rows, arm, controls, judging);
  trust.problems = false_sdc_problems(trust.false_sdc, trust.controls);
  return trust;
}

void require_accuracy(const Trust& trust, const std::string& what) {
  for (const auto& [arm, controls] : trust.controls) {
    if (controls.golden.front().evaluations.back().test_accuracy) continue;
    fail(ErrorCode::bad_input, "arm '{}' reports no test accuracy, so there are no {}", arm, what);
  }
}

}  // namespace bitrift::analyze
