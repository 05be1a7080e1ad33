// The mesh of chips on which the replicas of a run are placed.
#pragma once

#include <string>

#include "comm/mesh_schedule.h"
#include "comm/topology.h"
#include "record/fault/failed_link.h"
#include "record/json/json.h"

namespace bitrift::record {

/// Rank i of the run is the i-th live chip. Gradients travel only over the links between neighbours,
/// according to a planned schedule (docs/mesh.md), so they are added in that schedule's order.
struct MeshSpec {
  comm::Topology topology;
  comm::Scheme schedule = comm::Scheme::trees;
  bool operator==(const MeshSpec&) const = default;
  [[nodiscard]] int ranks() const { return static_cast<int>(topology.live().size()); }
};

/// {"rows", "columns", "wrap", "dead": ["1,1,2x2"], "dead_links": ["0,0-0,1"], "schedule"}; rows and columns
/// are required. The value is expected to have passed the schema. Throws Error(bad_input) that begins with
/// `where` as comm::topology_from_text() does.
[[nodiscard]] MeshSpec mesh_from_json(const Json& value, const std::string& where);
/// The inverse. Each dead chip is listed separately.
[[nodiscard]] Json to_json(const MeshSpec& mesh);

/// A chip of the mesh by its place, and the inverse.
[[nodiscard]] int chip_at(const comm::Topology& mesh, ChipPlace place);
[[nodiscard]] ChipPlace place_of(const comm::Topology& mesh, int chip);
/// The chips that a link joins: `one` and `other`.
[[nodiscard]] comm::Link ends_of(const comm::Topology& mesh, const FailedLink& link);

/// Throws Error(bad_input) that begins with `where` if the live chips are not connected or the schedule
/// cannot serve them.
void check_mesh(const MeshSpec& mesh, const std::string& where);

}  // namespace bitrift::record
