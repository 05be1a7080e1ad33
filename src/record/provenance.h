// The provenance of a result.
#pragma once

#include <string>
#include <vector>

#include "record/json/json.h"

namespace bitrift::record {

/// Schema version of every file that bitrift writes.
inline constexpr int schema_version = 1;

/// Refuses a document whose member "schema" is not schema_version. Throws Error(bad_file) that names both
/// versions, but no file.
void check_schema(const Json& document);

/// Version, commit and build type of this binary, host, processor, operating system, exact command, UTC time.
[[nodiscard]] Json provenance(const std::vector<std::string>& command);
/// "0.1.0"
[[nodiscard]] const char* bitrift_version() noexcept;
/// UTC now as "2026-01-31T12:00:00.123Z".
[[nodiscard]] std::string utc_now();

}  // namespace bitrift::record
