// The option that says which numbers are struck while they are computed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "record/fault/compute_fault.h"
#include "record/recovery.h"
#include "spec/parallel.h"
#include "spec/training_spec.h"

namespace bitrift::nn {
class Dataset;
}

namespace bitrift::cli {

void add_strike_option(CLI::App* command, std::vector<std::string>& strikes);

/// As far as texts and strategy tell: check_strikes() looks at the rest. Throws Error(bad_input) for texts
/// that are not faults, the same twice, a recovery, and updates of a sharded optimizer.
[[nodiscard]] std::vector<record::ComputeFault> chosen_strikes(const std::vector<std::string>& strikes,
                                                               const record::Parallel& parallel,
                                                               record::RecoveryKind recovery);
/// Throws Error(bad_input) for faults that make replicas differ, where all of them are to be equal.
void refuse_unequal_replicas(const std::vector<record::ComputeFault>& faults,
                             const record::Parallel& parallel);
/// Throws Error(bad_input) for numbers and steps that a run does not have. steps: that it takes.
void check_strikes(const std::vector<record::ComputeFault>& faults, const record::TrainingSpec& spec,
                   const record::Parallel& parallel, const nn::Dataset& data, std::int64_t steps);

}  // namespace bitrift::cli
