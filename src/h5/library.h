// The rules of every call into HDF5: one at a time, silent, its result checked.
#pragma once

#include <cstdint>
#include <string>

#include "core/error.h"
#include "h5/handle.h"
#include "h5/silent_scope.h"

namespace bitrift::h5 {

/// The innermost description on HDF5's error stack, on one line; the stack is cleared. "unknown HDF5 error"
/// when empty.
[[nodiscard]] std::string take_error_text();

/// Owns the identifier, or throws Error(code, "<where>: <HDF5's own text>") when it is negative.
[[nodiscard]] Handle own(std::int64_t id, const std::string& where, ErrorCode code = ErrorCode::bad_file);
/// Passes a result through, or throws as own() does when it is negative.
std::int64_t check(std::int64_t result, const std::string& where, ErrorCode code = ErrorCode::bad_file);

/// Version of the HDF5 library at run time, "1.10.8".
[[nodiscard]] std::string library_version();

}  // namespace bitrift::h5
