// All schemes by name.
#pragma once

#include <array>

#include "comm/mesh_schedule.h"
#include "comm/model/workload.h"

namespace bitrift::comm {

/// Plans a schedule. Throws Error(unsupported) where the scheme cannot serve the mesh, or is `other`;
/// Error(bad_input) for a mesh that is not connected. Only `trees` depend on the workload.
[[nodiscard]] Schedule plan_schedule(const Topology& topology, Scheme scheme, const Workload& work = {});

/// All schemes that plan_schedule() knows.
inline constexpr std::array<Scheme, 5> planned_schemes{Scheme::ring, Scheme::rings_2d, Scheme::row_pairs,
                                                       Scheme::forwarding, Scheme::trees};

}  // namespace bitrift::comm
