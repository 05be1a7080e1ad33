// Rates of the outcomes of flips in one stratum of a file.
#pragma once

#include <cstdint>
#include <string>

#include "analyze/group_rates.h"
#include "record/json/json.h"

namespace bitrift::study {

/// The first `flips` draws from a stratum of this many bits, without replacement: at least `least` and at
/// most `most` of them have the outcome. The estimate is the one for `least`.
[[nodiscard]] analyze::Rate flip_rate(std::uint64_t least, std::uint64_t most, std::uint64_t flips,
                                      std::uint64_t bits, double confidence);
[[nodiscard]] record::Json rate_json(const analyze::Rate& rate);
/// In %, with the anytime interval: "0.2 [0.0, 1.4]".
[[nodiscard]] std::string rate_text(const analyze::Rate& rate);

}  // namespace bitrift::study
