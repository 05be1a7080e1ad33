// One run of a campaign again, alone, to see whether it gives the same bytes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "record/trial.h"

namespace bitrift::campaign {

struct Replay {
  record::TrialRecord row;                ///< of the journal
  record::TrialRecord again;              ///< of this run
  std::optional<std::string> difference;  ///< the difference outside the volatile fields; nullopt when both
                                          ///< agree
  std::string no_trace;                   ///< why there is no trace, although one was requested; else ""
  std::string hint;                       ///< for a difference: see environment_hint(); else ""
};

/// Runs the id ("arm/stratum/draw") in its own worker and private copy; writes nothing to the journal, and
/// can run while a driver runs. Throws Error(not_found) when the journal holds no such row, trace: then the
/// run is repeated by write_trace(), and `difference` says if the result is not the row's. Misbehaviour when
/// the worker's no-flip run is not the golden run, and Error as run_campaign does.
[[nodiscard]] Replay replay_run(const std::filesystem::path& folder, const std::string& id,
                                const std::optional<std::filesystem::path>& trace = std::nullopt);

}  // namespace bitrift::campaign
