// The runs of a worker that record their propagation. Inside train/ only.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "record/propagation_report.h"
#include "record/run.h"
#include "train/run/trainer.h"

namespace bitrift::train {

/// The runs of a worker that record their propagation. Memory holds golden states of one data order, and of
/// those that do not fit together one group: for each other group, the golden run and the trial run once
/// more, up to the group's last step; if the states belong to another order, the trial's golden run comes
/// first. All calls are collective.
class PropagationRuns {
 public:
  explicit PropagationRuns(Trainer& trainer) : trainer_(trainer) {}

  /// Loads a trial's altered file, or the base in that trial's data order, once more.
  struct Loads {
    std::function<void()> base, trial;
  };

  /// The base is loaded with the seed `order` and its golden run comes next: what that run has to keep.
  /// Throws as state_groups().
  [[nodiscard]] ChosenStates golden(const record::PropagationSpec& wanted, std::int64_t epochs,
                                    std::uint64_t order);
  /// The altered file is loaded: runs it, and records how far it strays from the golden run of options.order.
  /// Throws Error(internal) before any golden().
  [[nodiscard]] record::RunResult trial(const RunOptions& options, const record::PropagationSpec& wanted,
                                        const Loads& loads);

 private:
  // What golden states belong to.
  struct Held {
    std::uint64_t order = 0;  // data-order seed
    std::size_t group = 0;    // in groups_
  };
  void hold(const record::PropagationSpec& wanted, const Held& next, const Loads& loads);
  void add_group(const record::PropagationSpec& wanted, std::size_t group, record::RunResult& result,
                 const Loads& loads);

  Trainer& trainer_;
  std::vector<std::vector<std::int64_t>> groups_;
  Held held_;  // whose golden states are in memory
};

}  // namespace bitrift::train
