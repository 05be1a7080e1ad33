#include "campaign/plan/drills.h"

#include <algorithm>

#include "core/error.h"

namespace bitrift::campaign {

std::optional<record::Drill> Drills::of(const std::string& id) const {
  const auto found = trials.find(id);
  return found == trials.end() ? std::nullopt : std::optional(found->second);
}

void Drills::check(const design::CampaignSpec& spec) const {
  if (!forget_state) return;
  const bool any = std::any_of(spec.arms.begin(), spec.arms.end(), [](const design::Arm& arm) {
    const auto kind = arm.recovery.kind;
    return arm.recovery.promises_golden() && kind != record::RecoveryKind::shrink;
  });
  if (any) return;
  fail(ErrorCode::bad_input,
       "--drill forget-state: no arm replaces a rank that failed and promises the golden run's result; add "
       "one whose recovery is spare, respawn or restart");
}

void Drills::plant(record::TrialSpec& run) const {
  run.drill = of(run.id.text());
  const bool forgets = forget_state && run.recovery && run.recovery->kind != record::RecoveryKind::none;
  if (forgets) run.recovery->forget = {record::Structure::optimizer};
}

Drills parse_drills(const std::vector<std::string>& texts) {
  Drills drills;
  for (const std::string& text : texts) {
    const auto at = text.find('@');
    const auto kind = find_named<record::Drill>(text.substr(0, at));
    if (text == "flip-nothing") {
      drills.flip_nothing = true;
    } else if (text == "ignore-file") {
      drills.ignore_file = true;
    } else if (text == "forget-state") {
      drills.forget_state = true;
    } else if (kind && at != std::string::npos && at + 1 < text.size()) {
      if (!drills.trials.emplace(text.substr(at + 1), *kind).second) {
        fail(ErrorCode::bad_input, "--drill {}: {} has a drill already", text, text.substr(at + 1));
      }
    } else {
      fail(ErrorCode::bad_input,
           "--drill {}: expected flip-nothing, ignore-file, forget-state, or abort, segfault, raise, hang or "
           "leak followed "
           "by @ARM/STRATUM/DRAW",
           text);
    }
  }
  return drills;
}

record::Json to_json(const Drills& drills) {
  std::vector<std::string> texts;
  if (drills.flip_nothing) texts.emplace_back("flip-nothing");
  if (drills.ignore_file) texts.emplace_back("ignore-file");
  if (drills.forget_state) texts.emplace_back("forget-state");
  for (const auto& [id, kind] : drills.trials) texts.push_back(fmt::format("{}@{}", name_of(kind), id));
  std::sort(texts.begin(), texts.end());
  return texts;
}

}  // namespace bitrift::campaign
