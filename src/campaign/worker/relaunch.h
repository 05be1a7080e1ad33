// Runs that are launched again: a worker ended because ranks failed on purpose, and another worker continues
// its run.
#pragma once

#include <optional>

#include "campaign/worker/crew.h"

namespace bitrift::campaign {

/// What remains of a run whose worker ended because ranks failed on purpose.
struct Loss {
  RelaunchedRun next;       ///< for the worker that continues the run
  record::RunResult ended;  ///< the result of a run without recovery
};

/// Reads what the crew's worker left next to its copy, and moves the checkpoint and the ledgers away. nullopt
/// if no rank failed on purpose: the loss is then an accident. ranks: number of ranks of the arm. one_clock:
/// all ranks run on this machine. Throws Error(io).
[[nodiscard]] std::optional<Loss> loss_of_run(const Crew& crew, int ranks, bool one_clock);

}  // namespace bitrift::campaign
