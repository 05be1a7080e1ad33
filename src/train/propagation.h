// The golden run's states in memory, and how far another run strays from them. Inside train/ only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "record/propagation.h"
#include "train/session.h"
#include "train/trainer.h"

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

/// The runs of a worker that record their propagation. Golden states that do not fit in memory together are
/// kept group by group: for each group but the one in memory the golden run and the trial run once more, up
/// to the group's last step. All calls are collective.
class PropagationRuns {
 public:
  explicit PropagationRuns(Trainer& trainer) : trainer_(trainer) {}

  /// The base is loaded and its golden run comes next: what that is to keep. Throws as state_groups().
  [[nodiscard]] ChosenStates golden(const record::PropagationSpec& wanted, std::int64_t epochs);
  /// The altered file is loaded: runs it, and records. load_base and load_trial load the base and that file
  /// again. Throws Error(internal) before any golden().
  [[nodiscard]] record::RunResult trial(const RunOptions& options, const record::PropagationSpec& wanted,
                                        const std::function<void()>& load_base,
                                        const std::function<void()>& load_trial);

 private:
  void add_group(const record::PropagationSpec& wanted, std::size_t group, record::RunResult& result,
                 const std::function<void()>& load_base, const std::function<void()>& load_trial);

  Trainer& trainer_;
  std::vector<std::vector<std::int64_t>> groups_;
  std::size_t held_ = 0;  // the group whose golden states are in memory
};

}  // namespace bitrift::train
