#include "train/fault/kill_point.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include <unistd.h>

#include "core/log.h"
#include "record/fault/death_note.h"

namespace bitrift::train {

using record::TrainingPhase;

void KillPoint::arm(std::vector<record::ProcessFault> faults, std::filesystem::path note) {
  faults_ = std::move(faults);
  note_ = std::move(note);
  look();
}

void KillPoint::work_as(std::vector<int> ranks) {
  ranks_ = std::move(ranks);
  look();
}

// A process dies in the step after the last one that a survivor has completed, with two exceptions. It may
// die in that last step, because its update is local: if a fault explains that, those of the next step have
// not struck. And it may die one step ahead of all survivors: the last message that it sent is lost with it,
// and what it waited for has arrived. So if no fault explains the death before, one in that step does.
void KillPoint::spend(const std::vector<int>& seats, std::int64_t reached) {
  const auto is_of = [&](const record::ProcessFault& fault) {
    return std::find(seats.begin(), seats.end(), fault.rank) != seats.end();
  };
  const auto kills = [&](std::int64_t first, std::int64_t last) {
    return std::any_of(faults_.begin(), faults_.end(), [&](const record::ProcessFault& fault) {
      return is_of(fault) && !fault.slowness && fault.step >= first && fault.step <= last;
    });
  };
  const bool ahead = !kills(0, reached + 1) && kills(reached + 2, reached + 2);
  const bool behind = std::any_of(faults_.begin(), faults_.end(), [&](const record::ProcessFault& fault) {
    return is_of(fault) && !fault.slowness && fault.step == reached && fault.phase == TrainingPhase::update;
  });
  const std::int64_t last = behind ? reached : reached + (ahead ? 2 : 1);
  std::erase_if(faults_, [&](const record::ProcessFault& fault) {
    const bool struck = is_of(fault) && fault.step <= last;
    if (struck && !fault.slowness) recovered_ = std::max(recovered_, fault.step);
    return struck;
  });
  look();
}

void KillPoint::disarm() {
  faults_.clear();
  near_ = false;
  end_slowness();
}

KillPoint::Slowed::Slowed(double factor, std::int64_t last)
    : factor_(factor), last_(last), point_(record::monotonic_seconds()), waited_(mpi::seconds_waited()) {}

void KillPoint::Slowed::reach() {
  const double worked = record::monotonic_seconds() - point_ - (mpi::seconds_waited() - waited_);
  const double more = std::max(0.0, (factor_ - 1) * worked);
  std::this_thread::sleep_for(std::chrono::duration<double>(more));
  slept_ += more;
  point_ = record::monotonic_seconds();
  waited_ = mpi::seconds_waited();
}

void KillPoint::end_slowness() {
  if (!slow_) return;
  spdlog::info("rank {} was slow, for {:.3g} s in all", ranks_.empty() ? -1 : ranks_.front(), slow_->slept());
  slow_.reset();
}

void KillPoint::at_step(std::int64_t step) {
  step_ = step;
  recovered_ = 0;
  if (slow_ && step > slow_->last()) end_slowness();
  look();
}

bool KillPoint::is_late(const record::ProcessFault& fault) const {
  return fault.phase == TrainingPhase::recovery && fault.step > step_ && fault.step == recovered_;
}

bool KillPoint::is_now(const record::ProcessFault& fault) const {
  return (fault.step == step_ || is_late(fault)) &&
         std::find(ranks_.begin(), ranks_.end(), fault.rank) != ranks_.end();
}

void KillPoint::look() {
  near_ = std::any_of(faults_.begin(), faults_.end(),
                      [&](const record::ProcessFault& fault) { return is_now(fault); });
}

void KillPoint::reach(record::RecoveryPoint point) {
  reach(TrainingPhase::recovery, static_cast<std::int64_t>(point), std::ssize(names_of(point).words));
}

void KillPoint::reach(record::FinishPoint point) {
  end_slowness();
  reach(TrainingPhase::finish, static_cast<std::int64_t>(point), std::ssize(names_of(point).words));
}

void KillPoint::reach(record::LeavePoint point, bool recovers) {
  reach(TrainingPhase::leave, static_cast<std::int64_t>(point),
        recovers ? std::ssize(names_of(point).words) : 1);
}

void KillPoint::strike(TrainingPhase phase, std::int64_t point, std::int64_t count) {
  for (const record::ProcessFault& fault : faults_) {
    const bool here = fault.point == point || (point + 1 == count && fault.point > point) ||
                      (is_late(fault) && fault.point < point);
    if (fault.phase != phase || !here || !is_now(fault)) continue;
    if (fault.slowness) {
      end_slowness();
      slow_.emplace(fault.slowness->factor, fault.step + fault.slowness->steps - 1);
      continue;
    }
    if (!note_.empty())
      record::leave_death_note(note_, {record::monotonic_seconds(), fault.rank, fault.step, phase});
    if (fault.how == record::FailureMode::exit) ::_exit(0);
    ::raise(fault.how == record::FailureMode::stop ? SIGSTOP : SIGKILL);
  }
}

}  // namespace bitrift::train
