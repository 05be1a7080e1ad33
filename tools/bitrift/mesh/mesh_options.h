// Options that the subcommands of `bitrift mesh` share.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "comm/model/workload.h"
#include "comm/topology.h"

namespace bitrift::cli {

/// What the user wrote: units are checked when it is read.
struct WorkText {
  std::string bytes = "102M", bandwidth = "83G", latency = "1us", overhead = "0.1us";
};
void add_bytes_option(CLI::App& command, WorkText& work);
/// --bandwidth.
void add_bandwidth_option(CLI::App& command, WorkText& work);
/// --bandwidth, --latency and --overhead.
void add_cost_options(CLI::App& command, WorkText& work);
[[nodiscard]] comm::LinkCost cost_of(const WorkText& work);
[[nodiscard]] comm::Workload workload_of(const WorkText& work);

/// "mesh      4x4, wrap neither, 12 chips alive".
[[nodiscard]] std::string mesh_line(const comm::Topology& mesh);
/// "assumed   links of 83.0 GB/s ...".
[[nodiscard]] std::string cost_line(const comm::LinkCost& cost);

}  // namespace bitrift::cli
