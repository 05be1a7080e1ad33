// The results of a study's kills.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "record/json/json.h"
#include "study/row/study_row.h"
#include "study/row/study_spec.h"

namespace bitrift::study {

/// One kind of file.
struct KilledKind {
  FileKind kind;
  std::uint64_t calls = 0;   ///< calls that alter files, in one save
  std::uint64_t points = 0;  ///< points at which it can be killed: before each call, and half-way in those
                             ///< that write
  std::uint64_t kills = 0;
  std::array<std::uint64_t, kill_outcomes> counts = {};
  std::uint64_t left = 0;  ///< the most files that a kill left behind, and that belong to no checkpoint
};

/// Lines of the kinds that have rows, in the order of the tables.
[[nodiscard]] std::vector<KilledKind> summarize_kills(const StudySpec& spec,
                                                      const std::vector<StudyRow>& rows);
[[nodiscard]] record::Json kills_json(const std::vector<KilledKind>& kinds);
/// A table with a line for each kind; "" without kinds.
[[nodiscard]] std::string kills_table(const std::vector<KilledKind>& kinds);

}  // namespace bitrift::study
