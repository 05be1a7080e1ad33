// Rates of outcomes of flips in one stratum of a file.
#pragma once

#include <cstdint>
#include <string>

#include "analyze/group_rates.h"
#include "record/json/json.h"

namespace bitrift::study {

/// Of the first `flips` draws from a stratum of so many bits, which draws without replacement, at least
/// `least` and at most `most` have the outcome. The estimate is that of `least`.
[[nodiscard]] analyze::Rate flip_rate(std::uint64_t least, std::uint64_t most, std::uint64_t flips,
                                      std::uint64_t bits, double confidence);
[[nodiscard]] record::Json rate_json(const analyze::Rate& rate);
/// In %, with the anytime interval: "0.2 [0.0, 1.4]".
[[nodiscard]] std::string rate_text(const analyze::Rate& rate);

}  // namespace bitrift::study
