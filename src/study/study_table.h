// The results of a study as text.
#pragma once

#include <string>
#include <vector>

#include "study/study_summary.h"

namespace bitrift::study {

/// Sizes and saves, then the outcomes of flips in %, with anytime intervals. Columns are aligned.
[[nodiscard]] std::string study_table(const StudySpec& spec, const std::vector<KindSummary>& kinds);

}  // namespace bitrift::study
