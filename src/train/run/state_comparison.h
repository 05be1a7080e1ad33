// The golden run's states in memory, and how far another run strays from them. Inside train/ only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "record/propagation_report.h"
#include "train/run/trainer.h"
#include "train/state/session.h"

namespace bitrift::train {

/// This rank's tensors after chosen steps of the golden run.
class GoldenStates {
 public:
  /// Forgets all states. optimizer: whether those to come hold optimizer/ besides model/.
  void clear(bool optimizer);
  void keep(std::int64_t step, Session& session);
  /// Tensors that differ from those kept after this step, by path. An optimizer tensor that only one of the
  /// two has counts as zeros in the other. Throws Error(internal) when that step was not kept.
  [[nodiscard]] record::StepDrift compare(std::int64_t step, Session& session) const;

 private:
  struct Kept {
    ckpt::TensorMeta meta;
    std::string bytes;
  };
  [[nodiscard]] std::vector<StateTensor> chosen(Session& session) const;

  std::map<std::int64_t, std::map<std::string, Kept>> states_;  // step, then path
  bool optimizer_ = false;
};

/// One run at its chosen steps: keeps states, or compares them with those kept.
class StateWatch {
 public:
  StateWatch(TrainerState& state, const std::optional<ChosenStates>& chosen);
  /// Call it when so many steps are over, the first time with 0. Local.
  void after(std::int64_t steps);
  /// The run is the golden one from here on: whatever is chosen later does not differ. Local.
  void same_after(std::int64_t steps);
  /// On rank 0 of a run that compares: what all ranks found. Collective.
  [[nodiscard]] std::optional<std::vector<record::StepDrift>> gather();

 private:
  [[nodiscard]] bool wants(std::int64_t step) const;

  TrainerState& state_;
  const std::optional<ChosenStates>& chosen_;
  std::vector<record::StepDrift> found_;  // on this rank
};

/// The runs of a worker that record their propagation. In memory are golden states of one data order, and of
/// those that do not fit together one group: for each other group the golden run and the trial run once more,
/// up to the group's last step; and where the states are another order's, the trial's golden run comes first.
/// All calls are collective.
class PropagationRuns {
 public:
  explicit PropagationRuns(Trainer& trainer) : trainer_(trainer) {}

  /// Loads a trial's altered file, or the base in that trial's data order, once more.
  struct Loads {
    std::function<void()> base, trial;
  };

  /// The base is loaded with the seed `order` and its golden run comes next: what that is to keep. Throws as
  /// state_groups().
  [[nodiscard]] ChosenStates golden(const record::PropagationSpec& wanted, std::int64_t epochs,
                                    std::uint64_t order);
  /// The altered file is loaded: runs it, and records how far it strays from the golden run of options.order.
  /// Throws Error(internal) before any golden().
  [[nodiscard]] record::RunResult trial(const RunOptions& options, const record::PropagationSpec& wanted,
                                        const Loads& loads);

 private:
  // What golden states are of.
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
