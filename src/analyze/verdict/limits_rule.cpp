#include "analyze/verdict/limits_rule.h"

#include <algorithm>

namespace bitrift::analyze {
namespace {

using record::Evaluation;
using record::Reason;

/// Which metrics of one evaluation are outside their limits.
struct Position {
  bool train = false;
  bool test_loss = false;
  bool test_accuracy = false;
  [[nodiscard]] bool any() const { return train || test_loss || test_accuracy; }
};

Position position(const Evaluation& evaluation, const Limits& limits) {
  Position at;
  if (limits.has_train) {
    at.train = (evaluation.train_loss && *evaluation.train_loss > limits.train_loss_max) ||
               (evaluation.train_accuracy && *evaluation.train_accuracy < limits.train_accuracy_min);
  }
  at.test_loss = evaluation.test_loss > limits.test_loss_max;
  at.test_accuracy = evaluation.test_accuracy < limits.test_accuracy_min;
  return at;
}

}  // namespace

record::Outcome judge_by_limits(const Trajectory& run, const Envelope& envelope) {
  std::vector<Position> at;
  for (std::size_t i = 0; i < envelope.size(); ++i) at.push_back(position(run.at(i), envelope[i]));
  record::Outcome outcome;
  const Position& last = at.back();
  const auto train = [](const Position& p) { return p.train; };
  if (std::all_of(at.begin(), at.end(), train)) {
    outcome.reason = Reason::sharp_degrade;
  } else if (!at.front().train && last.train) {
    // Whatever happened between, there is a last return to the inside, and from the next evaluation on it is
    // outside.
    outcome.reason = Reason::slow_degrade;
  } else if (last.test_accuracy && !last.train) {
    outcome.reason = Reason::low_test_accuracy;
  } else if (last.any()) {
    outcome.reason = Reason::degraded;
  } else {
    const auto left = std::find_if(at.rbegin(), at.rend(), [](const Position& p) { return p.any(); });
    if (left == at.rend()) {
      outcome.reason = Reason::within_noise;
    } else {
      outcome.reason = Reason::reconverged;
      outcome.steps_to_recover = run[static_cast<std::size_t>(left.base() - at.begin())].step;
    }
  }
  return outcome;
}

}  // namespace bitrift::analyze
