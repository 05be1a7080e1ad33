#include "train/step/kill_point.h"

#include <algorithm>
#include <csignal>

#include <unistd.h>

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

void KillPoint::spend(const std::vector<int>& ranks, std::int64_t step) {
  std::erase_if(faults_, [&](const record::ProcessFault& fault) {
    return fault.step <= step && std::find(ranks.begin(), ranks.end(), fault.rank) != ranks.end();
  });
  look();
}

void KillPoint::at_step(std::int64_t step) {
  step_ = step;
  look();
}

void KillPoint::look() {
  near_ = std::any_of(faults_.begin(), faults_.end(), [&](const record::ProcessFault& fault) {
    return fault.step == step_ && std::find(ranks_.begin(), ranks_.end(), fault.rank) != ranks_.end();
  });
}

void KillPoint::reach(record::RecoveryPoint point) {
  reach(TrainingPhase::recovery, static_cast<std::int64_t>(point), std::ssize(names_of(point).words));
}

void KillPoint::reach(record::FinishPoint point) {
  reach(TrainingPhase::finish, static_cast<std::int64_t>(point), std::ssize(names_of(point).words));
}

void KillPoint::reach(record::LeavePoint point, bool recovers) {
  reach(TrainingPhase::leave, static_cast<std::int64_t>(point),
        recovers ? std::ssize(names_of(point).words) : 1);
}

void KillPoint::strike(TrainingPhase phase, std::int64_t point, std::int64_t count) {
  for (const record::ProcessFault& fault : faults_) {
    const bool here = fault.step == step_ && fault.phase == phase &&
                      (fault.point == point || (point + 1 == count && fault.point > point)) &&
                      std::find(ranks_.begin(), ranks_.end(), fault.rank) != ranks_.end();
    if (!here) continue;
    if (!note_.empty())
      record::leave_death_note(note_, {record::monotonic_seconds(), fault.rank, fault.step, phase});
    if (fault.how == record::Ending::exit) ::_exit(0);
    ::raise(fault.how == record::Ending::stop ? SIGSTOP : SIGKILL);
  }
}

}  // namespace bitrift::train
