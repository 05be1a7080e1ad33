// Runs that are launched again: a worker ended with the ranks that were to fail, and another continues its
// run.
#pragma once

#include <optional>

#include "campaign/worker/crew.h"

namespace bitrift::campaign {

/// What a job left of its run when it ended with ranks that were to fail.
struct Loss {
  RelaunchedRun next;       ///< for the worker that continues
  record::RunResult ended;  ///< instead, where nothing is recovered
};

/// Looks at what the crew's worker left beside its copy, and takes the files away. nullopt: no rank failed
/// because it was to, so that the loss is an accident. ranks: of the arm. one_clock: ranks run on this
/// machine. Throws Error(io).
[[nodiscard]] std::optional<Loss> loss_of_run(const Crew& crew, int ranks, bool one_clock);

}  // namespace bitrift::campaign
