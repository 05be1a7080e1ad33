// What the replayed flips of a study say.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/group_rates.h"
#include "record/json/json.h"
#include "record/outcome.h"
#include "study/part/damage.h"
#include "study/row/study_row.h"
#include "study/row/study_spec.h"

namespace bitrift::study {

/// One kind of file. Rates are those of a uniform bit of its payload.
struct ReplayedKind {
  FileKind kind;
  std::uint64_t bits = 0;                                                 ///< of the payload
  std::uint64_t flips = 0;                                                ///< whether noticed or not
  std::uint64_t undetected = 0;                                           ///< of these, silently wrong ones
  std::array<std::uint64_t, record::outcome_classes.size()> counts = {};  ///< of these, by OutcomeClass
  std::uint64_t not_replayed = 0;  ///< among the undetected: they changed more than one element
  analyze::Rate undetected_rate = {};
  std::array<analyze::Rate, record::outcome_classes.size()> rates = {};  ///< undetected, and this outcome
};

/// Lines of the kinds whose payload was flipped, in the order of the tables; none without the part.
[[nodiscard]] std::vector<ReplayedKind> summarize_replays(const StudySpec& spec,
                                                          const std::vector<StudyRow>& rows,
                                                          const std::vector<StudyFile>& files);
[[nodiscard]] record::Json replays_json(const std::vector<ReplayedKind>& kinds);
/// A table with a line for each kind; "" without kinds.
[[nodiscard]] std::string replays_table(const StudySpec& spec, const std::vector<ReplayedKind>& kinds);

}  // namespace bitrift::study
