#include "record/recovery.h"

#include <algorithm>
#include <array>
#include <utility>

namespace bitrift::record {
namespace {

constexpr std::array<std::pair<const char*, double RecoveryTimes::*>, 6> recovery_parts = {
    {{"revoke", &RecoveryTimes::revoke},
     {"agree", &RecoveryTimes::agree},
     {"shrink", &RecoveryTimes::shrink},
     {"respawn", &RecoveryTimes::respawn},
     {"state", &RecoveryTimes::state},
     {"redo", &RecoveryTimes::redo}}};

}  // namespace

Json to_json(const RecoverySpec& spec) {
  Json value = {{"kind", spec.kind}};
  if (spec.state) value["state"] = *spec.state;
  if (spec.spares > 0) value["spares"] = spec.spares;
  if (spec.snapshot_every > 0) value["snapshot_every"] = spec.snapshot_every;
  if (spec.checkpoint_every > 0) value["checkpoint_every"] = spec.checkpoint_every;
  if (spec.batch != BatchRule::same) value["batch"] = spec.batch;
  for (const Structure structure : spec.forget) value["forget"].push_back(structure);
  return value;
}

RecoverySpec recovery_spec_from_json(const Json& value) {
  RecoverySpec spec;
  spec.kind = value.at("kind").get<RecoveryKind>();
  if (value.contains("state")) spec.state = value["state"].get<StateSource>();
  spec.spares = value.value("spares", spec.spares);
  spec.snapshot_every = value.value("snapshot_every", spec.snapshot_every);
  spec.checkpoint_every = value.value("checkpoint_every", spec.checkpoint_every);
  if (value.contains("batch")) spec.batch = value["batch"].get<BatchRule>();
  if (value.contains("forget")) {
    for (const Json& structure : value["forget"]) spec.forget.push_back(structure.get<Structure>());
  }
  return spec;
}

Json to_json(const Recovery& recovery, Times times) {
  Json value = {{"kind", recovery.kind},
                {"failed", recovery.failed},
                {"ranks_before", recovery.ranks_before},
                {"ranks_after", recovery.ranks_after},
                {"step", recovery.step},
                {"steps_lost", recovery.steps_lost},
                {"steps_redone", recovery.steps_redone},
                {"bytes_moved", recovery.bytes_moved}};
  if (recovery.state) value["state"] = *recovery.state;
  if (times == Times::with) value["volatile"] = to_json(recovery.times);
  return value;
}

Json to_json(const RecoveryTimes& times) {
  Json value = Json::object();
  if (times.detect) value["detect"] = *times.detect;
  for (const auto& [name, member] : recovery_parts) value[name] = times.*member;
  return value;
}

RecoveryTimes recovery_times_from_json(const Json& value) {
  RecoveryTimes times;
  if (value.contains("detect")) times.detect = value["detect"].get<double>();
  for (const auto& [name, member] : recovery_parts) times.*member = value.value(name, 0.0);
  return times;
}

Recovery recovery_from_json(const Json& value) {
  Recovery recovery{.kind = value.at("kind").get<RecoveryKind>(),
                    .state = {},
                    .failed = value.at("failed"),
                    .ranks_before = value.at("ranks_before"),
                    .ranks_after = value.at("ranks_after"),
                    .step = value.at("step"),
                    .steps_lost = value.at("steps_lost"),
                    .steps_redone = value.at("steps_redone"),
                    .bytes_moved = value.at("bytes_moved")};
  if (value.contains("state")) recovery.state = value["state"].get<StateSource>();
  if (value.contains("volatile")) recovery.times = recovery_times_from_json(value["volatile"]);
  return recovery;
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

Json to_json(const Relaunch& relaunch) {
  Json value = {{"checkpoint", relaunch.checkpoint},
                {"ledgers", relaunch.ledgers},
                {"step", relaunch.step},
                {"phase", relaunch.phase}};
  for (const Recovery& recovery : relaunch.recoveries) value["recoveries"].push_back(to_json(recovery));
  return value;
}

Relaunch relaunch_from_json(const Json& value) {
  Relaunch relaunch{value.at("checkpoint"), value.at("ledgers"), value.at("step"),
                    value.at("phase").get<TrainingPhase>()};
  for (const Json& recovery : value.at("recoveries"))
    relaunch.recoveries.push_back(recovery_from_json(recovery));
  return relaunch;
}

}  // namespace bitrift::record
