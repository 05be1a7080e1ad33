// The no-flip runs of every arm: the golden run, and the check that all other runs without a flip equal it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "design/campaign_spec.h"
#include "record/run.h"
#include "record/trial.h"

namespace bitrift::campaign {

/// The first difference between two runs that should be equal to the bit, metrics before digests:
/// "replicas[0][1].test_loss is 0.25 and 0.26". nullopt when they are equal; id and duration never count.
[[nodiscard]] std::optional<std::string> run_difference(const record::RunResult& first,
                                                        const record::RunResult& second);

/// Holds the golden run of an arm and a golden data order as soon as one no-flip run of them is over. Arms
/// are those of the spec, by index.
class Controls {
 public:
  /// rows: those that the journal already holds. spec must outlive this. Throws Misbehaviour when its
  /// controls differ.
  Controls(const design::CampaignSpec& spec, const std::vector<record::TrialRecord>& rows);

  [[nodiscard]] bool golden_known(std::size_t arm, int order) const { return golden_.contains({arm, order}); }
  /// Compares a no-flip run with the golden run of its order, or makes it the golden run. `what` begins the
  /// message. Throws Misbehaviour when they differ, when the run did not end as "done", or when it loaded
  /// altered tensors; Error(bad_input) when the golden run misses min_test_accuracy of its base or ends
  /// before a step that spec.propagation names, or takes other steps than strata.process.points says.
  void check(std::size_t arm, int order, const record::RunResult& result, const std::string& what);
  /// Adds the duration of a control (seconds).
  void took(std::size_t arm, double seconds);
  /// spec.deadline_s; otherwise 10 s + 20 x the arm's slowest control, or 600 s before one is known.
  [[nodiscard]] double deadline_s(std::size_t arm) const;

 private:
  void check_accuracy(std::size_t arm, int order, const record::RunResult& result) const;
  void check_propagation(std::size_t arm, const record::RunResult& result) const;
  void check_length(std::size_t arm, const record::RunResult& result) const;

  const design::CampaignSpec& spec_;
  std::map<std::pair<std::size_t, int>, record::RunResult> golden_;  // by arm and order
  std::map<std::size_t, double> slowest_;
};

}  // namespace bitrift::campaign
