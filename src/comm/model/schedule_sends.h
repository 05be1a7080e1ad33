// A schedule in the form that the model of the links takes.
#pragma once

#include "comm/mesh_schedule.h"
#include "comm/model/send_list.h"

namespace bitrift::comm {

/// The sends of a schedule in its order, between the vertices of graph_of(), each with an equal part of
/// `bytes`. A wait of the schedule that holds up a write at the receiver does not hold up the link there:
/// chips store what arrives. It holds up what that chip reads afterwards, so a send waits for all earlier
/// writes at its own chip, in however many steps. Throws Error(bad_input) for a schedule that is not sound.
[[nodiscard]] SendList sends_of(const Schedule& schedule, double bytes);

}  // namespace bitrift::comm
