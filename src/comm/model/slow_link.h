// Links whose messages are late.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "comm/graph/graph.h"
#include "comm/topology.h"

namespace bitrift::comm {

/// Each message over the link, in either direction, arrives later. Many messages can be in transit at once:
/// the delay is a latency, and takes no bandwidth.
struct SlowLink {
  Link link;         ///< the lower chip first
  double delay = 0;  ///< seconds
  bool operator==(const SlowLink&) const = default;
};

/// "0,0-0,1:2ms". Throws Error(bad_input) that quotes the text: for another form, for a delay that is not
/// above 0, and if no live link joins the chips.
[[nodiscard]] SlowLink slow_link_from_text(const Topology& mesh, std::string_view text);

/// The delay of each edge of graph_of(mesh), in seconds; for a link that is named twice, the sum.
[[nodiscard]] std::vector<double> delays_of(const Topology& mesh, const Graph& graph,
                                            std::span<const SlowLink> slow);

}  // namespace bitrift::comm
