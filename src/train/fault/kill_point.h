// The points at which this rank fails, or gets slow. Inside train/ only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "mpi/pulse.h"
#include "record/fault/process_fault.h"

namespace bitrift::train {

/// Ends this process or slows it down if a fault says so. The training code calls reach() at each point of a
/// phase; if no fault is armed, that is one comparison.
class KillPoint {
 public:
  /// The faults of this run, of all ranks, and the ranks as the run began whose work this process does.
  /// note: file in which the time of death is left, see record::DeathNote.
  void arm(std::vector<record::ProcessFault> faults, std::filesystem::path note);
  void work_as(std::vector<int> ranks);
  /// Forgets the faults that have struck a process that died. seats: the ranks, as the run began, whose work
  /// it did; reached: the steps that the furthest survivor had completed. Faults in the recovery from that
  /// step strike from now on, also on a rank that was in an earlier one when it noticed.
  void spend(const std::vector<int>& seats, std::int64_t reached);
  void disarm();
  [[nodiscard]] const std::vector<record::ProcessFault>& faults() const noexcept { return faults_; }

  /// The current step of this run, 1-based, or the number of steps completed in phases between steps.
  void at_step(std::int64_t step);
  /// Point `point` of `count` of a phase. Does not return if a fault strikes, except that a stopped process
  /// returns if it is continued.
  void reach(record::TrainingPhase phase, std::int64_t point, std::int64_t count) {
    mpi::beat(place_of(phase));
    if (phase != record::TrainingPhase::recovery) mpi::show_steps(steps_in(phase));
    if (slow_) slow_->reach();
    if (near_) strike(phase, point, count);
  }
  void reach(record::RecoveryPoint point);
  void reach(record::FinishPoint point);
  /// recovers: whether the run continues after a failure; if not, it has only the first point.
  void reach(record::LeavePoint point, bool recovers);

 private:
  [[nodiscard]] static constexpr mpi::Place place_of(record::TrainingPhase phase) noexcept {
    const bool regular = phase <= record::TrainingPhase::update || phase == record::TrainingPhase::evaluate;
    return regular ? mpi::Place::step : mpi::Place::elsewhere;
  }
  [[nodiscard]] mpi::Steps steps_in(record::TrainingPhase phase) const noexcept {
    const bool in_step = !record::is_between_steps(phase);
    return {in_step ? step_ - 1 : step_, in_step};
  }
  void strike(record::TrainingPhase phase, std::int64_t point, std::int64_t count);
  /// Whether a fault is in this recovery, which is from a step that this rank had not reached yet.
  [[nodiscard]] bool is_late(const record::ProcessFault& fault) const;
  /// Whether a fault of these ranks is in this step, or is_late().
  [[nodiscard]] bool is_now(const record::ProcessFault& fault) const;
  void look();

  /// A rank that takes longer: it sleeps at each point for as long as the time since the last one demands,
  /// without the time in which it waited for others.
  class Slowed {
   public:
    /// last: the last slow step.
    Slowed(double factor, std::int64_t last);
    void reach();
    [[nodiscard]] std::int64_t last() const noexcept { return last_; }
    [[nodiscard]] double slept() const noexcept { return slept_; }

   private:
    double factor_;
    std::int64_t last_;
    double point_, waited_;  // seconds, at the last point
    double slept_ = 0;       // seconds
  };
  void end_slowness();

  std::vector<record::ProcessFault> faults_;
  std::vector<int> ranks_;
  std::filesystem::path note_;
  std::int64_t step_ = 0;
  std::int64_t recovered_ = 0;  // step of the last fault that struck another rank; 0: no recovery yet
  bool near_ = false;           // some fault of these ranks is in this step
  std::optional<Slowed> slow_;
};

}  // namespace bitrift::train
