// What the verdicts of a campaign rest on, and whether they can be trusted at all.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyze/verdict/false_sdc.h"

namespace bitrift::analyze {

/// Computed once from all rows of a campaign.
struct Trust {
  Judging judging;
  std::map<std::string, ArmControls> controls;  ///< by arm
  std::map<std::string, FalseSdc> false_sdc;    ///< by arm; empty when canaries misbehave
  /// Canaries that misbehave; otherwise clean runs that are called SDC more often than stated. One line each;
  /// empty when all is well.
  std::vector<std::string> problems;
};

/// Throws as controls_of and classify do.
[[nodiscard]] Trust trust_of(const std::vector<record::TrialRecord>& rows, const Judging& judging);

/// Throws Error(bad_input) where the clean runs of an arm report no test accuracy. what: the numbers that
/// need it, such as "losses of test accuracy".
void require_accuracy(const Trust& trust, const std::string& what);

}  // namespace bitrift::analyze
