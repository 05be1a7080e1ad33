// The results of timed saves: medians, ratios within turns, and a model of more ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/json/json.h"
#include "study/cost/cost_model.h"
#include "study/cost/cost_part.h"
#include "study/row/study_row.h"
#include "study/row/study_spec.h"

namespace bitrift::study {

/// One figure over all turns.
struct Spread {
  double median = 0, least = 0, most = 0;
};
[[nodiscard]] Spread spread_of(const std::vector<double>& values);

/// A ratio of two values of one turn, over all turns. unstable: the slowest time of the reference is more
/// than twice its fastest, so the ratio says little.
struct Ratio {
  Spread spread;
  bool unstable = false;
};

struct CostLine {
  TimedKind timed;
  std::uint64_t turns = 0;
  std::uint64_t bytes = 0;                                     ///< of the last turn
  Spread block = {}, persist = {};                             ///< s
  std::optional<Spread> load = {}, step = {}, processor = {};  ///< s
  /// bitrift, one rank: by how many seconds a save makes a training longer: the time for which it stops, and
  /// the slowdown of the steps until the next save.
  std::optional<Spread> cost = {};
  std::optional<Ratio> as_fast_as_raw = {};         ///< raw's block / this one's; async: of memcpy
  std::optional<Ratio> as_fast_as_torch_save = {};  ///< sync
};

/// A number of ranks and a size for which a fitted model makes a prediction.
struct Prediction {
  SaveRoute route = SaveRoute::gather;
  int ranks = 1;
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::optional<double> measured = {};  ///< absent: modelled only
};

struct CostSummary {
  std::vector<CostLine> lines;    ///< in the order of cost_cases()
  std::vector<FileKind> missing;  ///< those of timed_kinds() that are not installed
  std::vector<CostModel> models;  ///< for each route, fitted to 1 and 2 ranks
  std::vector<Prediction> predictions;
};

[[nodiscard]] CostSummary summarize_cost(const StudySpec& spec, const std::vector<TimedKind>& cases,
                                         const std::vector<StudyRow>& rows);
[[nodiscard]] record::Json cost_json(const CostSummary& summary);
/// "" if nothing was timed.
[[nodiscard]] std::string cost_table(const CostSummary& summary);

}  // namespace bitrift::study
