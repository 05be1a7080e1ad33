#include "record/fault/kill_points.h"

#include "core/error.h"

namespace bitrift::record {

std::int64_t KillPoints::of(int stage, TrainingPhase phase) const {
  if (phase == TrainingPhase::recovery)
    return static_cast<std::int64_t>(names_of(RecoveryPoint{}).words.size());
  const auto& phases = stages.at(static_cast<std::size_t>(stage));
  const auto found = phases.find(phase);
  return found == phases.end() ? 0 : found->second;
}

Json to_json(const KillPoints& points) {
  Json stages = Json::array();
  for (const auto& stage : points.stages) {
    stages.push_back(Json::object());
    for (const auto& [phase, count] : stage) stages.back()[name_of(phase)] = count;
  }
  return {{"steps_per_epoch", points.steps_per_epoch}, {"stages", stages}};
}

KillPoints kill_points_from_json(const Json& value) {
  try {
    KillPoints points;
    value.at("steps_per_epoch").get_to(points.steps_per_epoch);
    for (const Json& stage : value.at("stages")) {
      points.stages.emplace_back();
      for (const auto& [phase, count] : stage.items())
        points.stages.back()[parse_named<TrainingPhase>(phase)] = count.get<std::int64_t>();
    }
    if (points.steps_per_epoch >= 1 && !points.stages.empty()) return points;
  } catch (const Json::exception&) {
  }
  fail(ErrorCode::bad_file,
       "kill points: expected 'steps_per_epoch' of at least 1 and 'stages', the points of each phase by "
       "stage; found {}",
       value.dump());
}

}  // namespace bitrift::record
