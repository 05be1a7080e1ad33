// The findings of the part `state`.
#pragma once

#include <string>
#include <vector>

#include "record/json/json.h"
#include "study/row/study_row.h"

namespace bitrift::study {

/// Sorted by name, without the check that nothing was left out.
[[nodiscard]] std::vector<StateResult> summarize_states(const std::vector<StudyRow>& rows);
[[nodiscard]] record::Json states_json(const std::vector<StateResult>& states);
/// A table with a line for each piece; "" without pieces.
[[nodiscard]] std::string states_table(const std::vector<StateResult>& states);

}  // namespace bitrift::study
