// The rows in the words of a published study, next to our own outcomes (docs/outcomes.md, "Other words").
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyze/verdict/trust.h"
#include "analyze/views/dimension.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// Trials of one line by the outcome words of E. Rojas, D. Perez, E. Meneses, "A characterization of
/// soft-error sensitivity in data-parallel and model-parallel distributed deep learning", JPDC 2024. The
/// words exclude each other and are tried in this order.
struct StudyLine {
  std::map<std::string, std::string> key;  ///< as in a summary's groups
  std::uint64_t trials = 0;
  std::uint64_t other = 0;      ///< no accuracy and no NaN: exception, signal, hang, rejected
  std::uint64_t nan = 0;        ///< NaN: a loss or a metric was NaN or infinite
  std::uint64_t unchanged = 0;  ///< RWC: final test accuracy is the golden run's
  std::uint64_t reduced = 0;    ///< AccR: it is more than accuracy_drop below the golden run's
  std::uint64_t wrong = 0;      ///< TF: it is any other
  double golden = 0;            ///< final test accuracy, 0..1; mean over the line's trials
  double mean = 0;       ///< of the final test accuracies of trials that have one (RWC, AccR, TF), 0..1
  double deviation = 0;  ///< sample standard deviation of these; NaN for fewer than two
  double variation = 0;  ///< coefficient of variation: deviation / mean; NaN where that is not defined
};

/// A fall of the test accuracy by more than this counts as reduced: 5 points, as a share.
inline constexpr double accuracy_drop = 0.05;

/// trust: of the same rows. Groups the `trial` rows that count (those before the first draw that is missing
/// in their stratum) by the dimensions of analyze/views/dimension.h. Throws Error(conflict) as classify and
/// controls_of do, Error(bad_input) on an unknown dimension.
[[nodiscard]] std::vector<StudyLine> study_view(const std::vector<record::TrialRecord>& rows,
                                                const design::CampaignSpec& spec, const Trust& trust,
                                                const std::vector<std::string>& by);
/// Plain text, columns aligned; counts in % of the line's trials.
[[nodiscard]] std::string study_table(const std::vector<StudyLine>& lines, const std::vector<Dimension>& by);
[[nodiscard]] record::Json to_json(const std::vector<StudyLine>& lines);

}  // namespace bitrift::analyze
