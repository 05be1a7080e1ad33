// Options that describe a mesh of chips, and how gradients travel on it.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "comm/topology.h"

namespace bitrift::cli {

/// --mesh, --wrap, --dead and --dead-link. `mesh` must live as long as the command. Returns --mesh.
CLI::Option* add_topology_options(CLI::App& command, comm::TopologyText& mesh);

/// Names of the schemes that can be planned.
[[nodiscard]] std::vector<std::string> planned_scheme_names();
/// --schedule, with those.
CLI::Option* add_schedule_option(CLI::App& command, std::string& schedule);

}  // namespace bitrift::cli
