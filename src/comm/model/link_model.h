// The duration of a list of sends on a mesh: a model, not a measurement.
#pragma once

#include <span>
#include <vector>

#include "comm/graph/graph.h"
#include "comm/model/send_list.h"

namespace bitrift::comm {

/// A full-duplex link: each direction has all of the bandwidth. A message occupies its direction for overhead
/// + bytes / bandwidth and arrives `latency` later; the direction is free for the next message without
/// waiting for that. Parallel links of an edge carry each message together: the bandwidth is multiplied by
/// the capacity.
struct LinkCost {
  double bandwidth = 0;  ///< bytes per second, one direction of one link
  double latency = 0;    ///< seconds
  double overhead = 0;   ///< seconds a message
};

/// The order in which a directed link carries its sends.
enum class LinkOrder {
  arrival,   ///< first in, first out: as they became ready; at the same time, in the order of the list
  priority,  ///< when the link is free, the first in the list among the ready ones
  listed,    ///< in the order of the list: a send that is not ready holds up the ones after it
};

/// The result of the model.
struct LinkTimes {
  double finish = 0;             ///< seconds until the last arrival
  std::vector<double> start;     ///< of each send
  std::vector<double> forward;   ///< of each edge: seconds for which the direction from a to b is occupied
  std::vector<double> backward;  ///< the same, from b to a

  /// The largest of forward and backward.
  [[nodiscard]] double busiest() const;
};

/// Runs the sends. A send is ready when every send it waits for has arrived (if it came to the chip that
/// sends) or has left (if the same chip sent it). Chips store, add and forward at no cost and without limits.
/// Throws Error(bad_input) for a send between chips without a link, a wait for a send that is not in the list
/// or that its chip can neither receive nor send, and costs or sizes that are negative or not finite;
/// Error(conflict) if sends wait for each other, naming one of them. delays: of each edge, seconds added to
/// the latency, 0 or more; none: all are 0.
[[nodiscard]] LinkTimes simulate(const Graph& mesh, const LinkCost& cost, const SendList& sends,
                                 LinkOrder order, std::span<const double> delays = {});

/// The lower bound for the time of an allreduce: bytes / (bandwidth tau) seconds.
[[nodiscard]] double bound_seconds(double bytes, double bandwidth, double tau);

}  // namespace bitrift::comm
