// Whether the rates of two campaigns have the same meaning.
#pragma once

#include <string>
#include <vector>

#include "analyze/across/sample.h"

namespace bitrift::analyze {

/// What differs between two campaigns besides the numbers of trials, a line each: "seed: 1 and 2".
[[nodiscard]] std::vector<std::string> differences(const Sample& first, const Sample& second);

/// Throws Error(bad_input) when the campaigns target other bits, judge trials differently, or resume for a
/// different time: the rates then mean different things. hint: ends the message, what to do.
void refuse_other_meaning(const Sample& first, const Sample& second, const std::string& hint);

}  // namespace bitrift::analyze
