// The globs of strata.tensors by role: each cell is one role, and a glob may be meant for some of the roles.
#pragma once

#include <string>
#include <vector>

#include "ckpt/reader.h"
#include "record/strata.h"

namespace bitrift::campaign {

/// Throws Error(not_found) that names the first glob that selects no tensor of any role of the strata.
void check_globs(const record::StrataSpec& strata, const ckpt::Reader& base);

/// The globs that select a tensor of this role, in their order; none where the strata have none. Throws
/// Error(not_found) where they have some and none of them does.
[[nodiscard]] std::vector<std::string> globs_of_role(const record::StrataSpec& strata,
                                                     const ckpt::Reader& base, const std::string& role);

}  // namespace bitrift::campaign
