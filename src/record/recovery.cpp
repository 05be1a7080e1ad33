#include "record/recovery.h"

#include <algorithm>

namespace bitrift::record {
Json to_json(const Recovery& recovery, Times times) {
  Json value = recovery;
  if (times == Times::without) value.erase("volatile");
  return value;
}

int recoveries_without_progress(const std::vector<Recovery>& recoveries) noexcept {
  std::int64_t furthest = -1;
  int count = 0;
  for (const Recovery& recovery : recoveries) {
    const std::int64_t reached = recovery.step + recovery.steps_lost;
    count = reached > furthest ? 1 : count + 1;
    furthest = std::max(furthest, reached);
  }
  return count;
}

Recovery Relaunch::continued_behind(std::int64_t steps) const {
  Recovery recovery = recoveries.back();
  recovery.step = steps;
  if (step == 0) return recovery;
  const bool within_step = phase != TrainingPhase::recovery && !is_between_steps(phase);
  recovery.steps_lost = std::max<std::int64_t>(0, step - (within_step ? 1 : 0) - steps);
  recovery.steps_redone = recovery.steps_lost + (within_step ? 1 : 0);
  return recovery;
}

Relaunch relaunch_after(const std::vector<DeathNote>& deaths, int ranks, double noticed) {
  Relaunch relaunch;
  Recovery& recovery = relaunch.recoveries.emplace_back();
  recovery.kind = RecoveryKind::relaunch;
  recovery.state = StateSource::file;
  recovery.ranks_before = recovery.ranks_after = ranks;
  if (deaths.empty()) return relaunch;
  double last = 0;
  for (const DeathNote& death : deaths) {
    recovery.failed.push_back(death.rank);
    last = std::max(last, death.time);
  }
  std::sort(recovery.failed.begin(), recovery.failed.end());
  relaunch.step = deaths.front().step;
  relaunch.phase = deaths.front().phase;
  recovery.times.detect = std::max(0.0, noticed - last);
  return relaunch;
}

}  // namespace bitrift::record
