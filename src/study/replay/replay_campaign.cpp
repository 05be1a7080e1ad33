#include "study/replay/replay_campaign.h"

#include "campaign/launch/launch.h"
#include "campaign/plan/ends.h"
#include "core/error.h"
#include "core/file.h"
#include "record/json/schema.h"
#include "study/part/saver.h"

namespace bitrift::study {

using record::Json;

Json replay_campaign(const StudySpec& spec, const std::string& base, const std::vector<ReplayTrial>& trials) {
  Json models = Json::array();
  for (const ReplayTrial& trial : trials) {
    models.push_back({{"name", trial.name},
                      {"tensors", {trial.change.tensor}},
                      {"element", trial.change.element},
                      {"what", "xor"},
                      {"mask", fmt::format("{:#x}", trial.change.mask)},
                      {"count", 1}});
  }
  return {{"name", spec.name + ", replay"},
          {"seed", spec.replay.seed},
          {"base", {{"checkpoint", base}}},
          {"resume", {{"epochs", spec.replay.epochs}}},
          {"arms", {{{"name", "serial"}, {"parallel", {{"kind", "serial"}}}}}},
          {"strata", {{"models", models}}},
          {"trials_per_stratum", 1},
          {"analysis", {{"confidence", spec.confidence}}}};
}

std::map<std::string, record::Reason> replay_reasons(const std::filesystem::path& summary,
                                                     const std::vector<ReplayTrial>& trials) {
  std::map<std::string, record::Reason> reasons;
  const Json document = record::parse_file(summary).value;
  try {
    for (const Json& group : document.at("groups")) {
      const Json& counts = group.at("reasons");
      if (counts.size() != 1) continue;  // a trial has exactly one outcome
      reasons[group.at("key").at("stratum").get<std::string>()] =
          parse_named<record::Reason>(counts.begin().key());
    }
  } catch (const Json::exception& error) {
    fail(ErrorCode::bad_file, "{}: not the summary of a campaign ({})", summary.string(), error.what());
  }
  for (const ReplayTrial& trial : trials) {
    if (!reasons.contains(trial.name))
      fail(ErrorCode::bad_file, "{}: no outcome of {}", summary.string(), trial.name);
  }
  return reasons;
}

std::map<std::string, record::Reason> run_replay_campaign(const StudySpec& spec, const ReplayPlaces& places,
                                                          const std::vector<ReplayTrial>& trials) {
  replace_text(places.spec, replay_campaign(spec, places.base.filename().string(), trials).dump(2) + "\n");
  const ExitStatus ended = run_to_end(
      {{places.bitrift.string(), "campaign", "run", places.spec.string(), "-o", places.folder.string()},
       {{"BITRIFT_TRAIN_PROGRAM", places.trainer.string()}},
       places.log});
  if (ended.ok()) return replay_reasons(places.folder / "summary.json", trials);
  const std::string text =
      fmt::format("replay: the campaign in {} ended with {}; {} says: {}", places.folder.string(),
                  ended.text(), places.log.string(), campaign::log_tail(places.log));
  if (ended.signal == 0 && ended.code == 1) throw campaign::Misbehaviour(text);
  fail(ended.signal == 0 && ended.code == 2 ? ErrorCode::bad_input : ErrorCode::internal, "{}", text);
}

}  // namespace bitrift::study
