// How many of some runs, as the scoreboard of guards counts them.
#pragma once

#include <cstdint>
#include <string>

#include "analyze/rates/interval.h"
#include "record/json/json.h"

namespace bitrift::analyze {

struct Share {
  std::uint64_t runs = 0, count = 0;
  Interval interval = {};  ///< for count / runs: Clopper and Pearson, with the campaign's confidence

  void add(bool counts) noexcept;
  /// Sets the interval; it stays as it is without a run.
  void close(double confidence);
};

/// "1/3 33.3 [0.8, 90.6]", in percent; "none" without a run.
[[nodiscard]] std::string text_of(const Share& share);
/// {"runs", KEY: the count, "share", "interval"}; the last two are null without a run.
[[nodiscard]] record::Json to_json(const Share& share, const char* key);

}  // namespace bitrift::analyze
