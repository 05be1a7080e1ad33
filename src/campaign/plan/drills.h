// Drills: faults in the harness itself, planted on purpose to show that it notices (docs/campaign.md,
// "Drills").
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "design/campaign_spec.h"
#include "record/json/json.h"
#include "record/run.h"

namespace bitrift::campaign {

struct Drills {
  bool flip_nothing = false;  ///< the injector writes nothing
  bool ignore_file = false;   ///< workers resume from the base, whatever file they are given
  bool forget_state = false;  ///< replacements of failed ranks start from fresh optimizer state
  std::map<std::string, record::Drill> trials;  ///< by trial id

  /// Whether workers load something other than what was requested, which only the canaries can reveal.
  [[nodiscard]] bool blind() const noexcept { return flip_nothing || ignore_file; }
  /// Throws Error(bad_input) when a drill cannot be noticed in this campaign.
  void check(const design::CampaignSpec& spec) const;
  /// Adds the drills of a run to it.
  void plant(record::TrialSpec& run) const;
  /// The drill of a run, if it has one.
  [[nodiscard]] std::optional<record::Drill> of(const std::string& id) const;
};

/// "flip-nothing", "ignore-file", "forget-state", "abort@ARM/STRATUM/DRAW" (or segfault, raise, hang, leak).
/// Throws Error(bad_input).
[[nodiscard]] Drills parse_drills(const std::vector<std::string>& texts);
/// The texts again, sorted, as campaign.json keeps them.
[[nodiscard]] record::Json to_json(const Drills& drills);

}  // namespace bitrift::campaign
