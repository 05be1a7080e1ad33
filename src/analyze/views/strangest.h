// The trials that a reader should see first.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analyze/verdict/judging.h"
#include "analyze/views/trials_view.h"

namespace bitrift::analyze {

/// A fault whose trials end in the same class in several arms; `line` is the first of these trials.
struct StrangeFault {
  TrialLine line;
  std::vector<std::string> arms;
};

struct Strangest {
  std::vector<StrangeFault> worst;     ///< SDCs: the smallest p-value first, then the most harmed
  std::vector<StrangeFault> rare;      ///< crashes: the rarest reason first, at most three of each
  std::vector<StrangeFault> unharmed;  ///< masked: the largest change of a number first
};

/// At most `most` faults of each class. lines: of trials_view().
[[nodiscard]] Strangest strangest(const std::vector<TrialLine>& lines, const Judging& judging,
                                  std::size_t most);

/// The largest |new - old| among the faults of a row, in the file or in messages; infinite where a number
/// becomes NaN or infinite; 0 where no number was altered. Faults at bytes of the file count as 0.
[[nodiscard]] double largest_change(const record::TrialRecord& row);

}  // namespace bitrift::analyze
