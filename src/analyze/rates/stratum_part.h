// A part of a stratum: the bits of it that belong to a layer, a tensor or a bit number.
#pragma once

#include <cstdint>
#include <vector>

namespace bitrift::analyze {

/// Which draws of a stratum fell into a part of it. A stratum is drawn in a random order, so its draws that
/// fall into a part are drawn from that part in a random order, too.
struct Part {
  std::uint64_t stratum_bits = 0;     ///< size of the whole stratum
  std::uint64_t draws = 0;            ///< draws 0, 1, ... of the whole stratum without a gap
  std::vector<std::uint64_t> inside;  ///< those that fell into the part, ascending
};

}  // namespace bitrift::analyze
