#include "record/fault/process_strata.h"

#include <algorithm>

#include "core/error.h"

namespace bitrift::record {

std::int64_t KillPoints::of(int stage, TrainingPhase phase) const {
  if (phase == TrainingPhase::recovery)
    return static_cast<std::int64_t>(names_of(RecoveryPoint{}).words.size());
  const auto& phases = stages.at(static_cast<std::size_t>(stage));
  const auto found = phases.find(phase);
  return found == phases.end() ? 0 : found->second;
}

int ProcessStrata::failing() const noexcept {
  const bool pairs = std::find(phases.begin(), phases.end(), TrainingPhase::recovery) != phases.end();
  return pairs ? std::max(2, together) : together;
}

StepRange step_range_from(const Document& document, const std::string& pointer) {
  const Json& steps = document.value.at(Json::json_pointer(pointer));
  const StepRange range =
      steps.is_object() ? StepRange{steps.at("first"), steps.at("last")} : StepRange{1, steps};
  if (range.last < range.first) {
    fail(ErrorCode::bad_input, "{}: 'last' is {}, before 'first', which is {}", document.where(pointer),
         range.last, range.first);
  }
  return range;
}

Json to_json(const StepRange& steps) { return {{"first", steps.first}, {"last", steps.last}}; }

ProcessStrata process_strata_from(const Document& document) {
  const Json& value = document.value.at("strata").at("process");
  ProcessStrata strata;
  strata.phases = value.at("phases").get<std::vector<TrainingPhase>>();
  if (value.contains("steps")) strata.steps = step_range_from(document, "/strata/process/steps");
  strata.together = value.value("together", strata.together);
  strata.how = value.value("how", strata.how);
  if (value.contains("points")) strata.points = kill_points_from_json(value["points"]);
  return strata;
}

Json to_json(const ProcessStrata& strata) {
  Json value = {{"phases", strata.phases}, {"together", strata.together}, {"how", strata.how}};
  if (strata.steps) value["steps"] = to_json(*strata.steps);
  if (strata.points) value["points"] = to_json(*strata.points);
  return value;
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
