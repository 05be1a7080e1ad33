// The options that say how a run is spread over ranks.
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "comm/topology.h"
#include "spec/parallel.h"

namespace bitrift::cli {

struct ParallelArguments {
  std::optional<std::string> kind, semantics, sync_on_resume, schedule, balance, device;
  std::optional<int> ranks, stages, micro_batches, resync_every;
  bool shard_optimizer = false;
  comm::TopologyText mesh;  ///< no mesh where `mesh.mesh` is ""
};

void add_parallel_options(CLI::App* command, ParallelArguments& arguments, const std::string& usual);

/// `parallel` with what the command line says instead; another --parallel starts from that kind's defaults,
/// and --mesh takes the place of any other mesh. Ranks that nothing names are those that the launcher
/// started, or the live chips. Throws Error(bad_input).
[[nodiscard]] record::Parallel chosen_parallel(const ParallelArguments& arguments, record::Parallel parallel);

}  // namespace bitrift::cli
