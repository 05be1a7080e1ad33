// An allreduce along spanning trees as sends.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/graph/tree_packing.h"
#include "comm/model/link_model.h"
#include "comm/model/send_list.h"

namespace bitrift::comm {

/// The message in trees x chunks pieces of equal size. Each piece is summed up its tree and then copied down.
/// A send upward waits for those of the piece from the children; a send downward waits for the piece from the
/// parent or, at the root, from all children. A copy therefore overwrites a chip's sum only after that sum
/// was sent.
struct TreeSends {
  SendList sends;
  std::vector<std::uint32_t> piece;  ///< of each send: tree x chunks + chunk
  std::vector<bool> down;            ///< of each send: a copy, not a part of a sum
};

/// The sends in the order in which they are due, for LinkOrder::priority. Between a send and the last one
/// that needs it are some hops; with the busiest link as the clock, chunk c is due at c x (time of a piece of
/// each of its trees)
/// - hops x 1.5 (time of a piece and the latency). Throws Error(bad_input) for no chunk.
[[nodiscard]] TreeSends tree_sends(const Packing& packing, int chunks, double bytes, const LinkCost& cost);

/// The same sends, listed as they start in LinkOrder::priority: in LinkOrder::listed they take the same
/// time, and each link has a fixed order that a program can follow without a clock.
[[nodiscard]] TreeSends in_order_of_start(const TreeSends& sends, const std::vector<double>& start);

}  // namespace bitrift::comm
