// Where this rank is to fail. Inside train/ only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "record/fault/process_fault.h"

namespace bitrift::train {

/// Ends this process where a fault says so. The code that trains calls reach() at each point of a phase; with
/// no fault armed, that is one comparison.
class KillPoint {
 public:
  /// The faults of this run, of all ranks, and the ranks as the run began whose work this process does.
  /// note: file in which the time of death is left, see record::DeathNote.
  void arm(std::vector<record::ProcessFault> faults, std::filesystem::path note);
  void work_as(std::vector<int> ranks);
  /// Forgets faults of these ranks up to this step: they have struck.
  void spend(const std::vector<int>& ranks, std::int64_t step);
  void disarm() { faults_.clear(), near_ = false; }
  [[nodiscard]] const std::vector<record::ProcessFault>& faults() const noexcept { return faults_; }

  /// The step of this run, 1-based, that is under way, or the number of steps behind it in phases between
  /// steps.
  void at_step(std::int64_t step);
  /// Point `point` of `count` of a phase. Does not return where a fault strikes, except that a stopped
  /// process returns if it is continued.
  void reach(record::TrainingPhase phase, std::int64_t point, std::int64_t count) {
    if (near_) strike(phase, point, count);
  }
  void reach(record::RecoveryPoint point);
  void reach(record::FinishPoint point);
  /// recovers: whether the run continues after a failure; without, it has no point but the first.
  void reach(record::LeavePoint point, bool recovers);

 private:
  void strike(record::TrainingPhase phase, std::int64_t point, std::int64_t count);
  void look();

  std::vector<record::ProcessFault> faults_;
  std::vector<int> ranks_;
  std::filesystem::path note_;
  std::int64_t step_ = 0;
  bool near_ = false;  // some fault of these ranks is of this step
};

}  // namespace bitrift::train
