// Whether a campaign shows more harm than a baseline: the test that `bitrift gate` makes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyze/across/difference.h"
#include "analyze/across/gate_rules.h"
#include "analyze/across/one_limit.h"
#include "analyze/across/sample.h"
#include "core/named_enum.h"
#include "record/outcome.h"

namespace bitrift::analyze {

/// The result of a line, or of the gate.
enum class GateVerdict {
  passed,
  undecided,  ///< no increase is shown, but one as large as `must_see` could have passed unseen
  worse,      ///< the rate increased by more than the tolerance
};
constexpr EnumNames<3> names_of(GateVerdict) {
  return {"verdict of a gate", {"passed", "undecided", "worse"}};
}

/// The test that decides a line (docs/statistics.md, "The gate").
enum class GateTest { mcnemar, fisher, interval };
constexpr EnumNames<3> names_of(GateTest) { return {"test", {"mcnemar", "fisher", "interval"}}; }

/// One outcome over some strata of one arm.
struct GateLine {
  std::map<std::string, std::string> key;  ///< e.g. {"arm":"serial","role":"weight"}
  record::OutcomeClass outcome = record::OutcomeClass::sdc;
  double tolerance = 0;
  std::optional<double> must_see = {};
  LimitedDifference difference;  ///< current less baseline
  Interval interval;             ///< at 1 - alpha, for this line alone
  GateTest test = GateTest::interval;
  double p = 1;           ///< one-sided
  double adjusted_p = 1;  ///< after Holm, over all lines
  double visible = 1;     ///< the smallest observed increase that would have failed, as a share
  GateVerdict verdict = GateVerdict::passed;
  /// "SDC, arm serial, role weight"
  [[nodiscard]] std::string name() const;
};

/// The limit by which the trials of an arm were judged in both campaigns, and what else changed.
struct GateArm {
  std::string arm;
  OneLimit limit;
  std::vector<Shift> shifts;  ///< share of all runs, harmed or not
};

/// A fault whose trial ends differently from the baseline's.
struct Flip {
  record::TrialId id;
  record::OutcomeClass before = record::OutcomeClass::masked, after = record::OutcomeClass::masked;
  std::string fault = {};  ///< the fault in words; the caller, who has the rows, fills it in
  [[nodiscard]] bool worse() const noexcept { return after > before; }
};

struct GateReport {
  std::string campaign;  ///< name of the spec
  double alpha = 0;
  std::vector<std::string> differences;  ///< differences of the campaigns, in words
  std::vector<std::string> new_arms;     ///< arms that the baseline lacks: they are not tested
  std::vector<GateArm> arms;             ///< arms of the baseline
  std::vector<GateLine> lines;
  std::uint64_t pairs = 0;  ///< trials with the same fault in both
  std::vector<Flip> flips;  ///< those that became worse first, then by id
  [[nodiscard]] GateVerdict verdict() const noexcept;
};

/// If both campaigns and their clean runs come from one distribution, or no rate has increased by more than
/// its tolerance, the probability of the verdict `worse` is at most rules.alpha (docs/statistics.md, "The
/// gate"). The report refers to both samples. Throws Error(bad_input) as refuse_other_meaning() does, when
/// `current` lacks trials of its plan or an arm of the baseline, and on a family without a line.
[[nodiscard]] GateReport gate(const Sample& baseline, const Sample& current, const GateRules& rules);

/// Throws Error(bad_input) when trials of the plan are missing: those that ended first are not a fair sample.
void refuse_unfinished(const Sample& sample);

}  // namespace bitrift::analyze
