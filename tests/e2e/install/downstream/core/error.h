// Named like one of bitrift's headers, which must not include it.
#pragma once

inline constexpr const char* own_error = "downstream: error";
