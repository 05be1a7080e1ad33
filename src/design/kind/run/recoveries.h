// The recoveries of a spec's arms, and the parts of a spec that several kinds of fault refuse.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "design/kind/kind.h"
#include "record/json/json.h"
#include "record/recovery.h"
#include "spec/parallel.h"

namespace bitrift::design {

/// The recovery of each arm. arms: the values under /arms/K/parallel of the document, which obeys the schema.
/// Throws Error(bad_input) with file, line and key when a recovery does not fit its arm, or the kind has
/// none.
[[nodiscard]] std::vector<record::RecoverySpec> recoveries_from(const record::Document& document,
                                                                const Kind& kind,
                                                                const std::vector<record::Parallel>& arms);

/// Throws Error(bad_input) with file, line and this reason if the document has the key.
void refuse_key(const record::Document& document, const std::string& pointer, const std::string& why);

/// "/arms/2".
[[nodiscard]] std::string pointer_of_arm(std::size_t arm);
/// The form that a user writes.
[[nodiscard]] std::string name_of_arm(const record::Document& document, std::size_t arm);

}  // namespace bitrift::design
