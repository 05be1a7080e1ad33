// The results in the rows of a study.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyze/group_rates.h"
#include "record/json/json.h"
#include "study/part/damage.h"
#include "study/row/study_row.h"
#include "study/row/study_spec.h"

namespace bitrift::study {

using OutcomeCounts = std::array<std::uint64_t, damage_outcomes>;
using OutcomeRates = std::array<analyze::Rate, damage_outcomes>;

/// One stratum of one file.
struct DamageCell {
  BitStratum stratum = BitStratum::payload;
  std::uint64_t bits = 0;
  std::uint64_t flips = 0;
  OutcomeCounts counts = {};
  std::uint64_t missing = 0;  ///< number of silently wrong flips for which a saved tensor is missing
  OutcomeRates rates = {};
};

/// All results for one kind of file.
struct KindSummary {
  FileKind kind;
  std::string missing;  ///< why it was not studied; "" if it was
  std::optional<SizeResult> size = {};
  std::optional<DeterminismResult> saves = {};
  std::map<DamageCanary, DamageOutcome> canaries = {};
  std::vector<DamageCell> cells = {};
  std::optional<OutcomeRates> file = {};  ///< rates of a uniform bit of the whole file
  /// Flips of metadata by the structure that they hit, without the name of its owner.
  std::map<std::string, OutcomeCounts> structures = {};
};

/// In the order of the tables. files: those of the kinds that could be studied.
[[nodiscard]] std::vector<KindSummary> summarize(const StudySpec& spec, const std::vector<StudyRow>& rows,
                                                 const std::vector<StudyFile>& files);

/// Schema "bitrift/checkpoint-study-summary/1"; the caller adds "provenance" and "versions".
[[nodiscard]] record::Json summary_json(const StudySpec& spec, const std::vector<KindSummary>& kinds);
}  // namespace bitrift::study
