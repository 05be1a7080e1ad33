// A loop over independent pieces, on all cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace bitrift {

/// Calls piece(0) ... piece(count - 1), each once, on as many threads as the process may use cores (at most
/// 16); only on the caller's thread when there is one piece, or when two pieces of `bytes_each` would hold
/// more than 256 MiB. The first exception ends the loop and is thrown here.
void parallel_for(std::size_t count, const std::function<void(std::size_t)>& piece,
                  std::uint64_t bytes_each = 0);

}  // namespace bitrift
