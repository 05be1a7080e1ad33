// The machine that this process runs on.
#pragma once

#include <string>

namespace bitrift {

/// gethostname(2), or "unknown".
[[nodiscard]] std::string host_name();

}  // namespace bitrift
