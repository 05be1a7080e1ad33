// The same trials judged at every evaluation, to show which outcomes still change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyze/verdict/judging.h"
#include "record/json/json.h"
#include "record/outcome.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// The trials of one arm at one horizon.
struct HorizonLine {
  std::string arm;
  std::size_t horizon = 0;  ///< evaluation, the first being 1
  std::int64_t step = 0;    ///< since the resume, of the golden run
  std::map<record::OutcomeClass, std::uint64_t> counts;
  std::uint64_t moving = 0;  ///< trials whose class differs from that at the last horizon
};

/// By arm, then horizon. Counts are of trials as they were drawn, without weights. Throws as controls_of and
/// classify do. judging.horizon is ignored.
[[nodiscard]] std::vector<HorizonLine> horizons_of(const std::vector<record::TrialRecord>& rows,
                                                   Judging judging);
[[nodiscard]] std::string table(const std::vector<HorizonLine>& lines);
[[nodiscard]] record::Json to_json(const std::vector<HorizonLine>& lines);

}  // namespace bitrift::analyze
