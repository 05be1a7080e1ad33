// Runs changed values as the trials of a campaign, which judges them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "record/json/json.h"
#include "record/outcome.h"
#include "study/row/study_row.h"
#include "study/row/study_spec.h"

namespace bitrift::study {

/// A trial: its stratum has this name and only this fault.
struct ReplayTrial {
  std::string name;
  ValueChange change;
};

/// The campaign's files, and the programs that run it.
struct ReplayPlaces {
  std::filesystem::path bitrift, trainer;
  std::filesystem::path base;    ///< HDF5 checkpoint, in the folder of `spec`
  std::filesystem::path spec;    ///< is written
  std::filesystem::path folder;  ///< of the campaign
  std::filesystem::path log;     ///< what it prints
};

/// The spec of a campaign with one serial arm (docs/spec.md, "Campaign").
[[nodiscard]] record::Json replay_campaign(const StudySpec& spec, const std::string& base,
                                           const std::vector<ReplayTrial>& trials);

/// Why each trial has its outcome, by the trial's name, from the campaign's summary.json. Throws
/// Error(bad_file) if a trial is missing there.
[[nodiscard]] std::map<std::string, record::Reason> replay_reasons(const std::filesystem::path& summary,
                                                                   const std::vector<ReplayTrial>& trials);

/// Runs the campaign, or what is left of it, and returns its reasons. Throws campaign::Misbehaviour if its
/// controls or canaries misbehave, Error(bad_input | internal) if it ends in another way, and
/// campaign::Interrupted.
[[nodiscard]] std::map<std::string, record::Reason> run_replay_campaign(
    const StudySpec& spec, const ReplayPlaces& places, const std::vector<ReplayTrial>& trials);

}  // namespace bitrift::study
