#include "train/run/propagation_runs.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace bitrift::train {

ChosenStates PropagationRuns::golden(const record::PropagationSpec& wanted, std::int64_t epochs,
                                     std::uint64_t order) {
  groups_ = trainer_.state_groups(wanted, epochs);
  held_ = {order, 0};
  return {groups_.empty() ? std::vector<std::int64_t>() : groups_[0], wanted.optimizer, true};
}

record::RunResult PropagationRuns::trial(const RunOptions& options, const record::PropagationSpec& wanted,
                                         const Loads& loads) {
  if (groups_.empty()) fail(ErrorCode::internal, "a trial is to record its propagation before a golden run");
  if (held_.order != options.order) {
    hold(wanted, {options.order, 0}, loads);
    loads.trial();
  }
  RunOptions first = options;
  first.states = ChosenStates{groups_[held_.group], wanted.optimizer, false};
  record::RunResult result = trainer_.run(first);
  const std::size_t had = held_.group;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    if (group != had) add_group(wanted, group, result, loads);
  }
  if (result.propagation) {
    std::sort(result.propagation->begin(), result.propagation->end(),
              [](const auto& a, const auto& b) { return a.step < b.step; });
  }
  return result;
}

// Runs the golden run up to the last state of a group, and keeps those.
void PropagationRuns::hold(const record::PropagationSpec& wanted, const Held& next, const Loads& loads) {
  RunOptions pass;
  pass.steps = groups_[next.group].back();
  pass.states = ChosenStates{groups_[next.group], wanted.optimizer, true};
  loads.base();
  (void)trainer_.run(pass);
  held_ = next;
}

void PropagationRuns::add_group(const record::PropagationSpec& wanted, std::size_t group,
                                record::RunResult& result, const Loads& loads) {
  const std::vector<std::int64_t>& steps = groups_[group];
  if (steps.front() > result.steps) return;  // the run ended before that
  if (result.returned_step && steps.front() > *result.returned_step) {
    for (const std::int64_t step : steps) {
      if (result.propagation) result.propagation->push_back({step, {}});
    }
    return;
  }
  hold(wanted, {held_.order, group}, loads);
  RunOptions pass;
  pass.steps = steps.back();
  pass.states = ChosenStates{steps, wanted.optimizer, false};
  loads.trial();
  const record::RunResult part = trainer_.run(pass);
  if (result.propagation && part.propagation)
    result.propagation->insert(result.propagation->end(), part.propagation->begin(), part.propagation->end());
}

}  // namespace bitrift::train
