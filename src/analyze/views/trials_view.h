// Single trials: the altered bits, the outcome, and the measurements.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyze/verdict/trust.h"
#include "record/json/json.h"
#include "record/metric.h"
#include "record/outcome.h"
#include "record/trial.h"

namespace bitrift::analyze {

struct TrialLine {
  const record::TrialRecord* row = nullptr;  ///< a row among those given
  record::Outcome outcome;
  std::optional<record::Evaluation> at, golden;  ///< as judged at the horizon; `at` only if the run reached
                                                 ///< it
};

/// Which trials are wanted; empty members restrict nothing.
struct TrialFilter {
  std::set<record::TrialKind> kinds = {record::TrialKind::trial};
  std::set<record::OutcomeClass> outcomes = {};
  std::set<record::Reason> reasons = {};
  std::set<std::string> arms = {}, strata = {};
  std::set<std::string> ids = {};  ///< ARM/STRATUM/DRAW
};

/// The trials in file order. trust: of the same rows. Throws as classify() does, and Error(bad_input) on an
/// arm that has no row, or an id that no trial of the wanted kinds has.
[[nodiscard]] std::vector<TrialLine> trials_view(const std::vector<record::TrialRecord>& rows,
                                                 const Trust& trust, const TrialFilter& filter = {});
/// The most harmed first: the lowest accuracy or the highest loss. A value that is not finite comes before
/// all others; trials without an evaluation come last. Equal ones keep their order.
void sort_worst_first(std::vector<TrialLine>& lines, const record::Metric& metric);
/// The metrics of a line in JSON and tables: the standard ones, and the custom ones of its golden run.
[[nodiscard]] std::vector<record::Metric> shown_metrics(const TrialLine& line);
/// The metric of this name among those of the lines. Throws Error(bad_input) that lists them.
[[nodiscard]] record::Metric shown_metric(const std::vector<TrialLine>& lines, const std::string& name);
/// The smallest p-value first; trials without one last.
void sort_worst_first(std::vector<TrialLine>& lines);
/// {"id","arm","stratum","draw","kind","faults","tensor","role","element","bits","field","dtype","old","new",
/// "outcome","reason",...,"steps", a metric each, "golden": {metrics}}. The keys of a fault are those of the
/// first one; `faults` is their number. If ranks fail, instead {"victims","phase","step","point","how",
/// "recovered","recoveries"}: of the last to fail.
[[nodiscard]] record::Json to_json(const TrialLine& line);

}  // namespace bitrift::analyze
