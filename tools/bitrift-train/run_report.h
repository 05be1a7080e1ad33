// What a run prints when it is over.
#pragma once

#include <optional>

#include "commands.h"
#include "record/run.h"

namespace bitrift::cli {

/// Seconds of load and save, where there was one.
struct Durations {
  std::optional<double> load = {}, save = {};
};

/// The evaluations and the state digest, and how the run recovered where a rank failed; as JSON with --json.
void report(const Arguments& arguments, const record::Parallel& parallel, const record::RunResult& result,
            const Durations& durations);

}  // namespace bitrift::cli
